-- A store as the first schema left it, with a running and a queued job. Kept as it is: every later schema must open it.
PRAGMA foreign_keys = OFF;
BEGIN;
CREATE TABLE jobs (
    id               TEXT NOT NULL PRIMARY KEY,
    name             TEXT NOT NULL,
    kind             TEXT NOT NULL CHECK (kind IN ('training', 'batch_inference')),
    project          TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('queued', 'provisioning', 'starting', 'running', 'recovering',
                                                    'stopping', 'held', 'succeeded', 'failed', 'cancelled')),
    reason           TEXT NOT NULL,
    detail           TEXT NOT NULL,
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 100),
    principal        TEXT NOT NULL,
    local_allowed    INTEGER NOT NULL CHECK (local_allowed IN (0, 1)),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    exit_code        INTEGER,
    exit_signal      INTEGER,
    attempts         INTEGER NOT NULL CHECK (attempts >= 0),
    cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
    hold_requested   INTEGER NOT NULL CHECK (hold_requested IN (0, 1)),
    spec_is_yaml     INTEGER NOT NULL CHECK (spec_is_yaml IN (0, 1)),
    spec             TEXT NOT NULL,
    CHECK ((ended_at IS NULL) = (state NOT IN ('succeeded', 'failed', 'cancelled')))
) STRICT;
CREATE TABLE job_tally (
    state TEXT NOT NULL PRIMARY KEY,
    jobs  INTEGER NOT NULL CHECK (jobs >= 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE tasks (
    id               TEXT NOT NULL PRIMARY KEY,
    job              TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    place            INTEGER NOT NULL CHECK (place >= 0),
    state            TEXT NOT NULL CHECK (state IN ('waiting', 'assigned', 'running', 'done', 'failed', 'cancelled')),
    reason           TEXT NOT NULL,
    attempt          INTEGER NOT NULL CHECK (attempt >= 0),
    generation       INTEGER NOT NULL CHECK (generation >= 0),
    step             INTEGER NOT NULL,
    spot_lost        INTEGER NOT NULL,
    host_fault       INTEGER NOT NULL,
    start_timeout    INTEGER NOT NULL,
    gpu_oom          INTEGER NOT NULL,
    host_oom         INTEGER NOT NULL,
    no_progress      INTEGER NOT NULL,
    user_error       INTEGER NOT NULL,
    without_progress INTEGER NOT NULL,
    not_before       INTEGER,
    vram_above       INTEGER,
    ran              INTEGER NOT NULL CHECK (ran >= 0),
    waiting_since    INTEGER NOT NULL,
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 100),
    created_at       INTEGER NOT NULL,
    UNIQUE (job, place)
) STRICT;
CREATE TABLE machines (
    id            TEXT NOT NULL PRIMARY KEY,
    tag           TEXT NOT NULL UNIQUE,
    provider      TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('requested', 'unknown', 'booting', 'ready', 'busy', 'draining',
                                                 'interrupted', 'lost', 'destroying', 'gone')),
    reason        TEXT NOT NULL,
    provider_id   TEXT,
    job           TEXT REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    task          TEXT REFERENCES tasks (id) DEFERRABLE INITIALLY DEFERRED,
    attempt       INTEGER NOT NULL CHECK (attempt >= 0),
    disk          INTEGER NOT NULL CHECK (disk >= 0),
    image         TEXT NOT NULL,
    bid           INTEGER,
    rate          INTEGER,
    call_seq      INTEGER NOT NULL CHECK (call_seq >= 0),
    call          TEXT NOT NULL CHECK (call IN ('none', 'create', 'read', 'destroy')),
    call_began    INTEGER,
    call_ended    INTEGER,
    absences      INTEGER NOT NULL CHECK (absences >= 0),
    destroy_tries INTEGER NOT NULL CHECK (destroy_tries >= 0),
    read_alive    INTEGER NOT NULL CHECK (read_alive IN (0, 1)),
    watch         INTEGER NOT NULL CHECK (watch IN (0, 1)),
    created_at    INTEGER NOT NULL,
    ready_at      INTEGER,
    destroy_since INTEGER,
    gone_at       INTEGER,
    idle_since    INTEGER,
    boot_id       TEXT NOT NULL,
    agent_detail  TEXT NOT NULL,
    -- The whole offer as it was chosen; the columns after it are views into it, for people and for queries.
    offer         TEXT NOT NULL,
    gpu           TEXT GENERATED ALWAYS AS (json_extract(offer, '$.gpu.canonical')) VIRTUAL,
    gpu_count     INTEGER GENERATED ALWAYS AS (json_extract(offer, '$.gpu_count')) VIRTUAL,
    spot          INTEGER GENERATED ALWAYS AS (json_extract(offer, '$.spot')) VIRTUAL,
    region        TEXT GENERATED ALWAYS AS (json_extract(offer, '$.region')) VIRTUAL,
    host_id       TEXT GENERATED ALWAYS AS (json_extract(offer, '$.host_id')) VIRTUAL,
    CHECK ((gone_at IS NULL) = (state NOT IN ('gone')))
) STRICT;
CREATE TABLE attempts (
    id               TEXT NOT NULL PRIMARY KEY,
    task             TEXT NOT NULL REFERENCES tasks (id) DEFERRABLE INITIALLY DEFERRED,
    job              TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    number           INTEGER NOT NULL CHECK (number >= 1),
    state            TEXT NOT NULL CHECK (state IN ('leased', 'running', 'ended')),
    cause            TEXT CHECK (cause IN ('succeeded', 'not_started', 'spot_lost', 'host_fault', 'start_timeout',
                                           'gpu_oom', 'host_oom', 'no_progress', 'user_error', 'budget', 'duration',
                                           'cancelled')),
    detail           TEXT NOT NULL,
    machine          TEXT REFERENCES machines (id) DEFERRABLE INITIALLY DEFERRED,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    ended_at         INTEGER,
    exit_code        INTEGER,
    exit_signal      INTEGER,
    start_generation INTEGER NOT NULL CHECK (start_generation >= 0),
    progress_step    INTEGER NOT NULL,
    progress_total   INTEGER NOT NULL,
    UNIQUE (task, number),
    CHECK ((ended_at IS NULL) = (state NOT IN ('ended'))),
    CHECK ((cause IS NULL) = (state NOT IN ('ended'))),
    CHECK (exit_code IS NULL OR exit_signal IS NULL)
) STRICT;
CREATE TABLE reservations (
    machine     TEXT NOT NULL PRIMARY KEY REFERENCES machines (id) DEFERRABLE INITIALLY DEFERRED,
    job         TEXT REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    project     TEXT NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    from_at     INTEGER NOT NULL,
    until_at    INTEGER NOT NULL,
    released_at INTEGER
) STRICT;
CREATE TABLE ledger (
    machine    TEXT NOT NULL REFERENCES machines (id) DEFERRABLE INITIALLY DEFERRED,
    number     INTEGER NOT NULL CHECK (number >= 1),
    job        TEXT REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    project    TEXT NOT NULL,
    provider   TEXT NOT NULL,
    from_at    INTEGER NOT NULL,
    until_at   INTEGER CHECK (until_at >= from_at),
    gpu_rate   INTEGER NOT NULL CHECK (gpu_rate >= 0),
    disk_rate  INTEGER NOT NULL CHECK (disk_rate >= 0),
    rate_known INTEGER NOT NULL CHECK (rate_known IN (0, 1)),
    PRIMARY KEY (machine, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (
    id              TEXT NOT NULL PRIMARY KEY,
    task            TEXT NOT NULL REFERENCES tasks (id) DEFERRABLE INITIALLY DEFERRED,
    job             TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    generation      INTEGER NOT NULL CHECK (generation >= 1),
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    step            INTEGER NOT NULL,
    size            INTEGER NOT NULL CHECK (size >= 0),
    manifest_sha256 TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('whole', 'quarantined', 'pruned')),
    detail          TEXT NOT NULL,
    committed_at    INTEGER NOT NULL,
    UNIQUE (task, generation)
) STRICT;
CREATE TABLE outputs (
    job             TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    task            TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id) DEFERRABLE INITIALLY DEFERRED,
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    size            INTEGER NOT NULL CHECK (size >= 0),
    files           INTEGER NOT NULL CHECK (files >= 0),
    manifest_sha256 TEXT NOT NULL,
    published_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    job     TEXT,
    task    TEXT,
    attempt INTEGER NOT NULL,
    machine TEXT,
    state   TEXT NOT NULL,
    reason  TEXT NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
CREATE TABLE alerts (
    id         TEXT NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    severity   TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    dedupe     TEXT NOT NULL,
    job        TEXT,
    machine    TEXT,
    provider   TEXT,
    text       TEXT NOT NULL,
    cleared_at INTEGER
) STRICT;
CREATE TABLE idempotency (
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    job         TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE decisions (
    job  TEXT NOT NULL PRIMARY KEY REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    at   INTEGER NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE TABLE tokens (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'submitter', 'operator', 'admin')),
    sha256     TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO jobs (id, name, kind, project, state, reason, detail, priority, principal, local_allowed, created_at, updated_at, ended_at, exit_code, exit_signal, attempts, cancel_requested, hold_requested, spec_is_yaml, spec) VALUES ('job_01m3250vz816q4g4jx73vxrj5m', 'Обучение №1 it''s', 'training', 'voices', 'running', 'started', '', 50, 'socket', 1, 1790000001000, 1790000001000, NULL, NULL, NULL, 2, 0, 0, 1, 'name: one
run: python3 train.py
');
INSERT INTO jobs (id, name, kind, project, state, reason, detail, priority, principal, local_allowed, created_at, updated_at, ended_at, exit_code, exit_signal, attempts, cancel_requested, hold_requested, spec_is_yaml, spec) VALUES ('job_01m3250wygyan4kxvxb8j54q3j', 'two', 'batch_inference', 'voices', 'queued', 'submitted', '', 50, 'socket', 1, 1790000001000, 1790000001000, NULL, NULL, NULL, 0, 0, 0, 0, '{"name":"two","run":"true"}');
INSERT INTO job_tally (state, jobs) VALUES ('cancelled', 0);
INSERT INTO job_tally (state, jobs) VALUES ('failed', 0);
INSERT INTO job_tally (state, jobs) VALUES ('held', 0);
INSERT INTO job_tally (state, jobs) VALUES ('provisioning', 0);
INSERT INTO job_tally (state, jobs) VALUES ('queued', 1);
INSERT INTO job_tally (state, jobs) VALUES ('recovering', 0);
INSERT INTO job_tally (state, jobs) VALUES ('running', 1);
INSERT INTO job_tally (state, jobs) VALUES ('starting', 0);
INSERT INTO job_tally (state, jobs) VALUES ('stopping', 0);
INSERT INTO job_tally (state, jobs) VALUES ('succeeded', 0);
INSERT INTO tasks (id, job, place, state, reason, attempt, generation, step, spot_lost, host_fault, start_timeout, gpu_oom, host_oom, no_progress, user_error, without_progress, not_before, vram_above, ran, waiting_since, priority, created_at) VALUES ('tsk_01m3250xxrsdd3g83v0m0a18yz', 'job_01m3250vz816q4g4jx73vxrj5m', 0, 'running', 'started', 2, 1, 100, 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 1790000003000, 50, 1790000003000);
INSERT INTO tasks (id, job, place, state, reason, attempt, generation, step, spot_lost, host_fault, start_timeout, gpu_oom, host_oom, no_progress, user_error, without_progress, not_before, vram_above, ran, waiting_since, priority, created_at) VALUES ('tsk_01m3250yx055fckbkdnb1f29w1', 'job_01m3250wygyan4kxvxb8j54q3j', 0, 'waiting', 'submitted', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 1790000004000, 50, 1790000004000);
INSERT INTO machines (id, tag, provider, state, reason, provider_id, job, task, attempt, disk, image, bid, rate, call_seq, call, call_began, call_ended, absences, destroy_tries, read_alive, watch, created_at, ready_at, destroy_since, gone_at, idle_since, boot_id, agent_detail, offer) VALUES ('mch_01m3250zw88dfwqtrvpws26tsh', 'gf-0a1b2c3d-01m3250zw88dfwqtrvpws26tsh', 'vastai', 'gone', 'confirmed', '1001', 'job_01m3250vz816q4g4jx73vxrj5m', 'tsk_01m3250xxrsdd3g83v0m0a18yz', 1, 20000000000, 'ghcr.io/example/train:1', 390000, 401000, 3, 'none', NULL, NULL, 0, 0, 1, 0, 1790000005000, 1790000005000, NULL, 1790000005000, NULL, 'b1', '', '{"arch":"amd64","cloud":"","country":"","cuda_max":"","disk_micros_per_gb_month":0,"driver":"","exclusive":false,"gpu":{"canonical":"RTX 4090","memory":25757220864,"provider_name":"RTX 4090"},"gpu_count":1,"gpu_rate":390000,"host_id":"","hours_per_month":720,"id":"77","provider":"vastai","region":"DE","reliability":0.987,"spot":true,"stock":-1,"traffic_down_micros_per_gb":0,"traffic_up_micros_per_gb":0}');
INSERT INTO machines (id, tag, provider, state, reason, provider_id, job, task, attempt, disk, image, bid, rate, call_seq, call, call_began, call_ended, absences, destroy_tries, read_alive, watch, created_at, ready_at, destroy_since, gone_at, idle_since, boot_id, agent_detail, offer) VALUES ('mch_01m32510vg1vkcn0weyz2zcam9', 'gf-0a1b2c3d-01m32510vg1vkcn0weyz2zcam9', 'vastai', 'busy', 'leased', '1002', 'job_01m3250vz816q4g4jx73vxrj5m', 'tsk_01m3250xxrsdd3g83v0m0a18yz', 2, 20000000000, 'ghcr.io/example/train:1', 390000, 401000, 3, 'none', NULL, NULL, 0, 0, 1, 0, 1790000005000, 1790000005000, NULL, NULL, NULL, 'b1', '', '{"arch":"amd64","cloud":"","country":"","cuda_max":"","disk_micros_per_gb_month":0,"driver":"","exclusive":false,"gpu":{"canonical":"RTX 4090","memory":25757220864,"provider_name":"RTX 4090"},"gpu_count":1,"gpu_rate":390000,"host_id":"","hours_per_month":720,"id":"77","provider":"vastai","region":"DE","reliability":0.987,"spot":true,"stock":-1,"traffic_down_micros_per_gb":0,"traffic_up_micros_per_gb":0}');
INSERT INTO attempts (id, task, job, number, state, cause, detail, machine, created_at, started_at, ended_at, exit_code, exit_signal, start_generation, progress_step, progress_total) VALUES ('att_01m32511tr0eqmt59ham8fd8tt', 'tsk_01m3250xxrsdd3g83v0m0a18yz', 'job_01m3250vz816q4g4jx73vxrj5m', 1, 'ended', 'spot_lost', 'stopped', 'mch_01m3250zw88dfwqtrvpws26tsh', 1790000007000, 1790000007000, 1790000007000, NULL, NULL, 0, 0, 0);
INSERT INTO attempts (id, task, job, number, state, cause, detail, machine, created_at, started_at, ended_at, exit_code, exit_signal, start_generation, progress_step, progress_total) VALUES ('att_01m32512t08xnrmqsnvhjjqjy2', 'tsk_01m3250xxrsdd3g83v0m0a18yz', 'job_01m3250vz816q4g4jx73vxrj5m', 2, 'running', NULL, 'stopped', 'mch_01m32510vg1vkcn0weyz2zcam9', 1790000007000, 1790000007000, NULL, NULL, NULL, 1, 150, 1000);
INSERT INTO reservations (machine, job, project, amount, from_at, until_at, released_at) VALUES ('mch_01m32510vg1vkcn0weyz2zcam9', 'job_01m3250vz816q4g4jx73vxrj5m', 'voices', 500000, 1790000008000, 1790003608000, NULL);
INSERT INTO ledger (machine, number, job, project, provider, from_at, until_at, gpu_rate, disk_rate, rate_known) VALUES ('mch_01m3250zw88dfwqtrvpws26tsh', 1, 'job_01m3250vz816q4g4jx73vxrj5m', 'voices', 'vastai', 1789996408000, 1790000008000, 390000, 11000, 1);
INSERT INTO ledger (machine, number, job, project, provider, from_at, until_at, gpu_rate, disk_rate, rate_known) VALUES ('mch_01m32510vg1vkcn0weyz2zcam9', 1, 'job_01m3250vz816q4g4jx73vxrj5m', 'voices', 'vastai', 1790000008000, NULL, 390000, 11000, 1);
INSERT INTO checkpoints (id, task, job, generation, attempt, step, size, manifest_sha256, state, detail, committed_at) VALUES ('ckp_01m32513s83v2tzvtmhqaqjb9v', 'tsk_01m3250xxrsdd3g83v0m0a18yz', 'job_01m3250vz816q4g4jx73vxrj5m', 1, 1, 100, 4000000, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'whole', '', 1790000009000);
INSERT INTO events (seq, at, kind, job, task, attempt, machine, state, reason, detail) VALUES (1, 1790000009000, 'job_state', 'job_01m3250vz816q4g4jx73vxrj5m', NULL, 0, NULL, 'running', 'started', '');
INSERT INTO events (seq, at, kind, job, task, attempt, machine, state, reason, detail) VALUES (2, 1790000009000, 'machine_state', 'job_01m3250vz816q4g4jx73vxrj5m', NULL, 0, 'mch_01m32510vg1vkcn0weyz2zcam9', 'busy', 'started', '');
INSERT INTO alerts (id, at, kind, severity, dedupe, job, machine, provider, text, cleared_at) VALUES ('alr_01m32514rgef2zarrj88syysx6', 1790000010000, 'listing_not_trusted', 'warning', 'vastai', NULL, NULL, 'vastai', 'vastai listing is not trusted', NULL);
INSERT INTO idempotency (principal, key, body_sha256, job, created_at) VALUES ('socket', 'k1', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'job_01m3250wygyan4kxvxb8j54q3j', 1790000010000);
INSERT INTO decisions (job, at, json) VALUES ('job_01m3250wygyan4kxvxb8j54q3j', 1790000011000, '{"considered":0}');
INSERT INTO tokens (id, name, role, sha256, created_at, revoked_at) VALUES ('tok_01m32515qr6t1kyj1dw4hm2eh7', 'ci', 'operator', 'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc', 1790000011000, NULL);
INSERT INTO meta (key, value) VALUES ('install_id', '0a1b2c3d');
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_kind ON jobs (kind, id);
CREATE INDEX jobs_by_project ON jobs (project, id);
CREATE INDEX jobs_by_project_state ON jobs (project, state, id);
CREATE INDEX tasks_queue ON tasks (state, priority DESC, id) WHERE state = 'waiting';
CREATE INDEX machines_live ON machines (id) WHERE state <> 'gone' OR watch = 1;
CREATE INDEX attempts_by_job ON attempts (job);
CREATE UNIQUE INDEX attempts_one_live ON attempts (task) WHERE state <> 'ended';
CREATE INDEX reservations_by_job ON reservations (job);
CREATE INDEX reservations_open ON reservations (machine) WHERE released_at IS NULL;
CREATE INDEX ledger_by_job ON ledger (job);
CREATE INDEX ledger_by_end ON ledger (until_at);
CREATE INDEX checkpoints_by_job ON checkpoints (job);
CREATE INDEX outputs_by_job ON outputs (job);
CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;
CREATE UNIQUE INDEX alerts_one_open ON alerts (dedupe) WHERE cleared_at IS NULL AND dedupe <> '';
CREATE INDEX alerts_open ON alerts (id) WHERE cleared_at IS NULL;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
CREATE TRIGGER jobs_tally_insert AFTER INSERT ON jobs BEGIN
    UPDATE job_tally SET jobs = jobs + 1 WHERE state = new.state;
END;
CREATE TRIGGER jobs_tally_update AFTER UPDATE OF state ON jobs WHEN new.state <> old.state BEGIN
    UPDATE job_tally SET jobs = jobs + 1 WHERE state = new.state;
    UPDATE job_tally SET jobs = jobs - 1 WHERE state = old.state;
END;
CREATE TRIGGER jobs_tally_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_tally SET jobs = jobs - 1 WHERE state = old.state;
END;
PRAGMA application_id = 1734767225;
PRAGMA user_version = 1;
COMMIT;
