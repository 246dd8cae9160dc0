-- Each project's oldest waiting task has to be found without a walk over all tasks before it. The copy of the job's project is never
-- out of date: a job's project is written at insert only.
ALTER TABLE tasks ADD COLUMN project TEXT NOT NULL DEFAULT '';
UPDATE tasks SET project = (SELECT jobs.project FROM jobs WHERE jobs.id = tasks.job);
DROP INDEX tasks_queue;
CREATE INDEX tasks_queue ON tasks (priority DESC, project, id) WHERE state = 'waiting';
