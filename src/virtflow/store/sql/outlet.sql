-- outlets --
-- All, in name order, each with the time of the oldest event it was not told of.
SELECT
    name, kind, cursor, enabled, error, created_ms, updated_ms,
    (SELECT at_ms FROM event WHERE last_seq > outlet.cursor ORDER BY last_seq LIMIT 1),
    failing_since_ms, version
FROM outlet
ORDER BY name;

-- outlet_by_name --
-- One of them.
SELECT
    name, kind, cursor, enabled, error, created_ms, updated_ms,
    (SELECT at_ms FROM event WHERE last_seq > outlet.cursor ORDER BY last_seq LIMIT 1),
    failing_since_ms, version
FROM outlet
WHERE name = $1;

-- add_outlet --
-- Who is there already stays as it is.
INSERT INTO outlet (kind, cursor, enabled, error, created_ms, updated_ms, name)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING;

-- add_outlet [postgresql] --
-- The same for many.
INSERT INTO outlet (kind, cursor, enabled, error, created_ms, updated_ms, name)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
ON CONFLICT DO NOTHING
RETURNING name;

-- move_outlet --
-- It was told of more, if it is still where the caller thinks. Whoever is told is well.
UPDATE outlet SET cursor = $1, updated_ms = $2, error = '', failing_since_ms = NULL
WHERE cursor = $3 AND name = $4;

-- move_outlet [postgresql] --
-- The same for many, locked in one order.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM outlet WHERE name = ANY($4::text[]) ORDER BY name FOR UPDATE
)
UPDATE outlet SET cursor = move.now, updated_ms = move.at_ms, error = '', failing_since_ms = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS move (now, at_ms, was, name)
WHERE outlet.name = move.name AND (SELECT count(*) FROM locked) > 0 AND outlet.cursor = move.was
RETURNING outlet.name;

-- place_outlet --
-- Somebody wants it to be told again from there, or no sooner than there.
UPDATE outlet SET cursor = $1, updated_ms = $2, error = '', failing_since_ms = NULL WHERE name = $3;

-- mark_outlet --
-- Why it is told no further.
UPDATE outlet SET error = $1, updated_ms = $2, failing_since_ms = coalesce(failing_since_ms, $2)
WHERE name = $3 AND error <> $1;

-- leave_outlet --
-- It will not be told of what comes before that number, if it is still where the caller thinks.
UPDATE outlet SET cursor = $1, version = version + 1 WHERE cursor = $2 AND name = $3 RETURNING version;

-- enable_outlet --
-- Told of events from now on, or of none.
UPDATE outlet SET enabled = $1, error = '', failing_since_ms = NULL, updated_ms = $2 WHERE name = $3 AND enabled <> $1;

-- remove_outlet --
-- Forgotten, with how far it was told.
DELETE FROM outlet WHERE name = $1;
