-- What is remembered of hosts, their owners and data centres; counts are thousandths as of `at` and decay from there.
CREATE TABLE host_marks (
    key           TEXT NOT NULL PRIMARY KEY,
    boot_failures INTEGER NOT NULL CHECK (boot_failures >= 0),
    slow_pulls    INTEGER NOT NULL CHECK (slow_pulls >= 0),
    early_losses  INTEGER NOT NULL CHECK (early_losses >= 0),
    good_runs     INTEGER NOT NULL CHECK (good_runs >= 0),
    last          TEXT NOT NULL,
    at            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Values are sealed with a key that is not in this file.
CREATE TABLE secrets (
    name       TEXT NOT NULL PRIMARY KEY,
    sealed     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
