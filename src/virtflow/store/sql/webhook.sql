-- webhook_columns --
-- What a receiver is read from.
    name, url, description, events, secrets, state, code, reason, failures, failing_since_ms, retry_ms, version, work,
    created_ms, updated_ms

-- webhooks --
-- All, in name order.
SELECT {webhook_columns} FROM webhook ORDER BY name;

-- webhook_by_name --
-- One of them.
SELECT {webhook_columns} FROM webhook WHERE name = $1;

-- webhook_held --
-- One of them, to be changed.
SELECT {webhook_columns} FROM webhook WHERE name = $1;

-- webhook_held [postgresql] --
-- The same, held until the commit.
SELECT {webhook_columns} FROM webhook WHERE name = $1 FOR UPDATE;

-- count_webhooks --
-- How many there are.
SELECT count(*) FROM webhook;

-- add_webhook --
-- A new one; nothing when the name is taken.
INSERT INTO webhook (name, url, description, events, secrets, state, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING
RETURNING name;

-- change_webhook --
-- All that is said of it and known of it; its deliverer has to look again.
UPDATE webhook SET
    url = $1, description = $2, events = $3, secrets = $4, state = $5, code = $6, reason = $7, failures = $8,
    failing_since_ms = $9, retry_ms = $10, updated_ms = $11, version = version + 1, work = work + 1
WHERE name = $12;

-- give_webhook_work --
-- There is something to do beside the log.
UPDATE webhook SET work = work + 1 WHERE name = $1;

-- mark_webhook --
-- What became known by sending to it. Whoever is disabled meanwhile stays so.
UPDATE webhook SET state = $1, code = $2, reason = $3, failures = $4, failing_since_ms = $5, retry_ms = $6
WHERE state < 2 AND name = $7;

-- mark_webhook [postgresql] --
-- The same for many, locked in one order.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM webhook WHERE name = ANY($7::text[]) ORDER BY name FOR UPDATE
)
UPDATE webhook SET
    state = mark.state, code = mark.code, reason = mark.reason, failures = mark.failures,
    failing_since_ms = mark.failing_since_ms, retry_ms = mark.retry_ms
FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::integer[], $5::bigint[], $6::bigint[], $7::text[]
) AS mark (state, code, reason, failures, failing_since_ms, retry_ms, name)
WHERE webhook.name = mark.name AND (SELECT count(*) FROM locked) > 0 AND webhook.state < 2
RETURNING webhook.name;

-- delete_webhook --
-- Forgotten.
DELETE FROM webhook WHERE name = $1;
