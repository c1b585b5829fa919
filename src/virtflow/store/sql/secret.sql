-- secrets_of_webhooks --
-- A page of receivers.
SELECT name, secrets FROM webhook WHERE name > $1 ORDER BY name LIMIT $2;

-- secrets_of_callbacks --
-- A page of those who wait for the end of a task, and want it signed.
SELECT task_id, secret FROM callback WHERE task_id > $1 AND secret <> '' ORDER BY task_id LIMIT $2;

-- secrets_of_deliveries --
-- A page of messages to them.
SELECT id, secret FROM delivery WHERE url <> '' AND id > $1 AND secret <> '' ORDER BY id LIMIT $2;

-- secrets_of_dead --
-- A page of letters that name somebody to be called back.
SELECT subject, body FROM dead
WHERE subject > $1 AND kind = 'task' AND instr(body, CAST('"callbacks"' AS BLOB)) > 0
ORDER BY subject LIMIT $2;

-- secrets_of_dead [postgresql] --
-- The same.
SELECT subject, body FROM dead
WHERE subject > $1 AND kind = 'task' AND position('"callbacks"'::bytea IN body) > 0
ORDER BY subject LIMIT $2;

-- reseal_webhook --
-- Unless it was rotated meanwhile.
UPDATE webhook SET secrets = $1 WHERE name = $2 AND secrets = $3;

-- reseal_callback --
-- The same.
UPDATE callback SET secret = $1 WHERE task_id = $2 AND secret = $3;

-- reseal_delivery --
-- The same.
UPDATE delivery SET secret = $1 WHERE id = $2 AND secret = $3;

-- reseal_dead --
-- The same.
UPDATE dead SET body = $1 WHERE subject = $2 AND body = $3;
