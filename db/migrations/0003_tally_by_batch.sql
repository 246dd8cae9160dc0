-- Jobs per state are counted once per batch by the writer: a trigger per row made 51 of the 67 allocations of a stored
-- submission.
DROP TRIGGER jobs_tally_insert;
DROP TRIGGER jobs_tally_update;
DROP TRIGGER jobs_tally_delete;
