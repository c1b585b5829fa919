-- task_columns --
-- What `tasks.task_from_row` reads, in its order.
task.id, task.shape_id, task.state, task.when_unplaceable, task.priority, task.attempt, task.version,
    task.accepted_ms, task.next_try_ms, task.ended_ms, task.host_id, task.deadline_ms, task.instance_id,
    task.vm_name, task.gang, task.code, task.reason, task.explanation, task.history, host.name, host.address,
    task.trace;

-- task_by_id --
-- One task; its host's name and address also when that host is gone by now.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE task.id = $1;

-- tasks_page --
-- One page in id order; what is NULL is not asked for.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.id > $1
    AND ($2 IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $2))
ORDER BY task.id
LIMIT $3;

-- tasks_page [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.id > $1
    AND ($2::text IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $2))
ORDER BY task.id
LIMIT $3;

-- tasks_completed --
-- The same among the completed: nearly all are, so the rows themselves are the best index.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = 2
    AND task.id > $1
    AND ($2 IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $2))
ORDER BY task.id
LIMIT $3;

-- tasks_completed [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = 2
    AND task.id > $1
    AND ($2::text IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $2))
ORDER BY task.id
LIMIT $3;

-- tasks_open_in --
-- The same in one of the open states: they are few, and sorted here.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = $1
    AND task.state < 2
    AND task.id > $2
    AND ($3 IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY task.id
LIMIT $4;

-- tasks_open_in [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = $1
    AND task.state < 2
    AND task.id > $2
    AND ($3::text IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY task.id
LIMIT $4;

-- tasks_refused_in --
-- The same among the failed or the cancelled, by their index.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = $1
    AND task.state > 2
    AND task.id > $2
    AND ($3 IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY task.id
LIMIT $4;

-- tasks_refused_in [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state = $1
    AND task.state > 2
    AND task.id > $2
    AND ($3::text IS NULL OR task.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY task.id
LIMIT $4;

-- open_tasks --
-- Those that are not over, oldest first.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE task.state < 2 AND (task.accepted_ms, task.id) > ($1, $2)
ORDER BY task.accepted_ms, task.id
LIMIT $3;

-- waiting_tasks --
-- Those of these that are not over, and their companions in an all-or-nothing request.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state < 2
    AND (
        task.id IN (SELECT value FROM carray($1))
        OR task.gang IN (SELECT gang FROM task WHERE id IN (SELECT value FROM carray($1)) AND gang IS NOT NULL)
    )
ORDER BY task.accepted_ms, task.id;

-- waiting_tasks [postgresql] --
-- The same.
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE task.state < 2 AND task.id = ANY($1::bytea[])
UNION
SELECT {task_columns}
FROM task LEFT JOIN host ON host.id = task.host_id
WHERE
    task.state < 2
    AND task.gang IN (SELECT gang FROM task WHERE id = ANY($1::bytea[]) AND gang IS NOT NULL);

-- task_versions --
-- The versions of these tasks.
SELECT id, version FROM task WHERE id IN (SELECT value FROM carray($1));

-- task_versions [postgresql] --
-- The versions of these tasks.
SELECT id, version FROM task WHERE id = ANY($1::bytea[]);

-- taken_task_ids --
-- Which of these ids tasks bear.
SELECT id FROM task WHERE id IN (SELECT value FROM carray($1));

-- taken_task_ids [postgresql] --
-- Which of these ids tasks bear.
SELECT id FROM task WHERE id = ANY($1::bytea[]);

-- add_task --
-- A new task; one placed at once is written as completed.
INSERT INTO task (
    shape_id, state, when_unplaceable, priority, attempt, version, accepted_ms, next_try_ms, ended_ms, host_id,
    deadline_ms, instance_id, vm_name, gang, code, reason, explanation, history, trace, id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT DO NOTHING;

-- add_task [postgresql] --
-- New tasks; those placed at once are written as completed. Four times as fast as INSERT, and the first clash ends it.
COPY task (
    shape_id, state, when_unplaceable, priority, attempt, version, accepted_ms, next_try_ms, ended_ms, host_id,
    deadline_ms, instance_id, vm_name, gang, code, reason, explanation, history, trace, id
) FROM STDIN;

-- move_task --
-- One step, if the task is still where the caller thinks. What is NULL stays; a completed task needs no excuses.
-- The history is JSON without its outer brackets, so that it grows by appending; full, it takes only the last step.
UPDATE task SET
    state = $1,
    ended_ms = $2,
    host_id = coalesce($3, host_id),
    attempt = coalesce($4, attempt),
    next_try_ms = coalesce($5, next_try_ms),
    code = CASE WHEN $1 = 2 THEN $6 ELSE coalesce($6, code) END,
    reason = CASE WHEN $1 = 2 THEN $7 ELSE coalesce($7, reason) END,
    explanation = CASE WHEN $1 = 2 THEN $8 ELSE coalesce($8, explanation) END,
    history = CASE
        WHEN $9 IS NULL OR (length(history) > 8192 AND $1 < 2) THEN history
        ELSE coalesce(history, '[' || accepted_ms || ',0]') || ',' || $9
    END,
    version = version + 1
WHERE state = $10 AND id = $11;

-- move_task [postgresql] --
-- The same for many, locked in one order.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM task WHERE id = ANY($11::bytea[]) ORDER BY id FOR UPDATE
)
UPDATE task SET
    state = move.state,
    ended_ms = move.ended_ms,
    host_id = coalesce(move.host_id, task.host_id),
    attempt = coalesce(move.attempt, task.attempt),
    next_try_ms = coalesce(move.next_try_ms, task.next_try_ms),
    code = CASE WHEN move.state = 2 THEN move.code ELSE coalesce(move.code, task.code) END,
    reason = CASE WHEN move.state = 2 THEN move.reason ELSE coalesce(move.reason, task.reason) END,
    explanation = CASE WHEN move.state = 2 THEN move.explanation ELSE coalesce(move.explanation, task.explanation) END,
    history = CASE
        WHEN move.steps IS NULL OR (length(task.history) > 8192 AND move.state < 2) THEN task.history
        ELSE coalesce(task.history, '[' || task.accepted_ms || ',0]') || ',' || move.steps
    END,
    version = task.version + 1
FROM unnest(
    $1::integer[], $2::bigint[], $3::bigint[], $4::integer[], $5::bigint[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::integer[], $11::bytea[]
) AS move (state, ended_ms, host_id, attempt, next_try_ms, code, reason, explanation, steps, was, id)
WHERE task.id = move.id AND (SELECT count(*) FROM locked) > 0 AND task.state = move.was
RETURNING task.id;

-- counts --
-- For gauges: hosts, instances in all and without a host, tasks in all, the oldest waiting one.
SELECT
    (SELECT count(*) FROM host WHERE deleted_ms IS NULL),
    (SELECT count(*) FROM instance),
    (SELECT count(*) FROM instance WHERE host_id IS NULL),
    (SELECT count(*) FROM task),
    (SELECT min(accepted_ms) FROM task WHERE state < 2);

-- count_unfinished --
-- Tasks per state, but for the completed, which are the rest.
SELECT state, count(*) FROM task WHERE state < 2 GROUP BY state
UNION ALL
SELECT state, count(*) FROM task WHERE state > 2 GROUP BY state;
