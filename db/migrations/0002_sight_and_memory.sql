-- After a job ran out of host memory: more than this is asked for. Bytes; NULL = no such need.
ALTER TABLE tasks ADD COLUMN memory_above INTEGER;
-- When the provider or the agent last showed the machine alive; a machine that vanished is billed to here.
ALTER TABLE machines ADD COLUMN seen_at INTEGER;
