-- The history of the market, a file of its own (history.db): it grows by what the market does and not by what we do, it may be
-- lost without harm, and its writing must never hold up a commit of the store.
-- A place is one thing that can be had (model/market.hpp: MarketKey). `seen`, `shown` and `price` are those of MarketSight;
-- `summed` is the day's beginning up to which its changes have become rows of `days`.
CREATE TABLE places (
    id       INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    place    TEXT NOT NULL,
    card     TEXT NOT NULL,
    gpus     INTEGER NOT NULL CHECK (gpus > 0),
    share    INTEGER NOT NULL CHECK (share BETWEEN 1 AND 1000),
    spot     INTEGER NOT NULL CHECK (spot IN (0, 1)),
    seen     INTEGER NOT NULL,
    shown    INTEGER NOT NULL,
    price    INTEGER,
    summed   INTEGER NOT NULL,
    UNIQUE (provider, place, card, gpus, share, spot)
) STRICT;
CREATE INDEX places_by_card ON places (card, gpus);
CREATE INDEX places_by_shown ON places (shown);
CREATE INDEX places_by_summed ON places (summed);

-- From `at` on, until the next row of the place.
CREATE TABLE changes (
    place INTEGER NOT NULL REFERENCES places (id),
    at    INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('up', 'down', 'unknown')),
    price INTEGER CHECK ((price IS NULL) = (state <> 'up')),
    PRIMARY KEY (place, at)
) STRICT, WITHOUT ROWID;

-- What is left of a day (UTC, `day` is its beginning) when its changes go. Times in milliseconds; prices are those while up,
-- weighted by time.
CREATE TABLE days (
    place   INTEGER NOT NULL REFERENCES places (id),
    day     INTEGER NOT NULL,
    known   INTEGER NOT NULL CHECK (known > 0),
    up      INTEGER NOT NULL CHECK (up BETWEEN 0 AND known),
    p10     INTEGER CHECK ((p10 IS NULL) = (up = 0)),
    p50     INTEGER CHECK ((p50 IS NULL) = (up = 0)),
    p90     INTEGER CHECK ((p90 IS NULL) = (up = 0)),
    changes INTEGER NOT NULL,
    PRIMARY KEY (place, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX days_by_day ON days (day);
