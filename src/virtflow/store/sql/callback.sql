-- add_callback --
-- Somebody wants to hear of the end of this task.
INSERT INTO callback (url, secret, task_id) VALUES ($1, $2, $3);

-- add_callback [postgresql] --
-- The same for many.
COPY callback (url, secret, task_id) FROM STDIN;

-- any_callback --
-- Whether anybody does.
SELECT 1 FROM callback LIMIT 1;

-- callbacks_of --
-- Who wants to hear of the end of these tasks.
SELECT task_id, url, secret FROM callback WHERE task_id IN (SELECT value FROM carray($1));

-- callbacks_of [postgresql] --
-- The same.
SELECT task_id, url, secret FROM callback WHERE task_id = ANY($1::bytea[]);

-- take_callbacks --
-- Who wants to hear of the end of these tasks; nobody is told twice.
DELETE FROM callback WHERE task_id IN (SELECT value FROM carray($1)) RETURNING task_id, url, secret;

-- take_callbacks [postgresql] --
-- The same.
DELETE FROM callback WHERE task_id = ANY($1::bytea[]) RETURNING task_id, url, secret;
