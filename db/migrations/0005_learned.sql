-- What runs have taught of speeds, losses and start-up times. Which of it is known, and how it is spelled, is its kind's own affair.
CREATE TABLE learned (
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT NOT NULL CHECK (json_valid(value)),
    at    INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
