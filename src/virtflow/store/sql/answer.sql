-- answer_by_key --
-- What was answered to an Idempotency-Key.
SELECT principal, key, request_hash, status, body, created_ms, headers FROM answer WHERE principal = $1 AND key = $2;

-- add_answer --
-- Remembered once; a second one with that key changes nothing.
INSERT INTO answer (principal, request_hash, status, body, created_ms, headers, key)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING;

-- add_answer [postgresql] --
-- Remembered once; a second one with that key changes nothing.
INSERT INTO answer (principal, request_hash, status, body, created_ms, headers, key)
SELECT * FROM unnest(
    $1::text[], $2::bytea[], $3::integer[], $4::bytea[], $5::bigint[], $6::text[], $7::text[]
)
ON CONFLICT DO NOTHING
RETURNING key;

-- forget_answers --
-- A bounded number of the oldest.
DELETE FROM answer
WHERE id IN (SELECT id FROM answer WHERE created_ms < $1 ORDER BY created_ms LIMIT $2)
RETURNING id;
