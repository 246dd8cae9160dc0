-- The spine: jobs, their tasks and attempts, machines and what they cost, checkpoints, outputs, history and access.
-- States are their API texts and are listed in CHECKs; tests/db compares each list with the enum tables of model/.
-- Foreign keys are deferred, because a batch carries rows in the order of the events and not of the references.
-- Times are milliseconds since 1970 UTC, money is micro-dollars, sizes are bytes.

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
-- Pages of a filtered list walk one of these backwards from the cursor, also among a million queued jobs.
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_kind ON jobs (kind, id);
CREATE INDEX jobs_by_project ON jobs (project, id);
CREATE INDEX jobs_by_project_state ON jobs (project, state, id);

-- Jobs per state, kept by triggers: counting a million rows takes 0.2 s, and the dashboard asks all the time.
CREATE TABLE job_tally (
    state TEXT NOT NULL PRIMARY KEY,
    jobs  INTEGER NOT NULL CHECK (jobs >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO job_tally (state, jobs)
VALUES ('queued', 0), ('provisioning', 0), ('starting', 0), ('running', 0), ('recovering', 0), ('stopping', 0),
       ('held', 0), ('succeeded', 0), ('failed', 0), ('cancelled', 0);
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
-- The queue: highest priority first, then oldest. Only waiting tasks are in it.
CREATE INDEX tasks_queue ON tasks (state, priority DESC, id) WHERE state = 'waiting';

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
CREATE INDEX machines_live ON machines (id) WHERE state <> 'gone' OR watch = 1;

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
CREATE INDEX attempts_by_job ON attempts (job);
-- One writer per task, also if the code above were wrong.
CREATE UNIQUE INDEX attempts_one_live ON attempts (task) WHERE state <> 'ended';

CREATE TABLE reservations (
    machine     TEXT NOT NULL PRIMARY KEY REFERENCES machines (id) DEFERRABLE INITIALLY DEFERRED,
    job         TEXT REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    project     TEXT NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    from_at     INTEGER NOT NULL,
    until_at    INTEGER NOT NULL,
    released_at INTEGER
) STRICT;
CREATE INDEX reservations_by_job ON reservations (job);
CREATE INDEX reservations_open ON reservations (machine) WHERE released_at IS NULL;

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
CREATE INDEX ledger_by_job ON ledger (job);
CREATE INDEX ledger_by_end ON ledger (until_at);

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
CREATE INDEX checkpoints_by_job ON checkpoints (job);

CREATE TABLE outputs (
    job             TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    task            TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id) DEFERRABLE INITIALLY DEFERRED,
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    size            INTEGER NOT NULL CHECK (size >= 0),
    files           INTEGER NOT NULL CHECK (files >= 0),
    manifest_sha256 TEXT NOT NULL,
    published_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX outputs_by_job ON outputs (job);

-- History refers to things by name only: it may speak of a machine that never became a row.
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
CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;

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
CREATE UNIQUE INDEX alerts_one_open ON alerts (dedupe) WHERE cleared_at IS NULL AND dedupe <> '';
CREATE INDEX alerts_open ON alerts (id) WHERE cleared_at IS NULL;

CREATE TABLE idempotency (
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    job         TEXT NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

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
