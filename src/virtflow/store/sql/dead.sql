-- dead_columns --
-- What `dead.letter_from_row` reads, in its order.
id, kind, subject, code, reason, body, at_ms, requeued_ms, requeued_as;

-- dead_page --
-- One page, oldest first; those that were sent again only when asked for, and what is NULL is not asked for.
SELECT {dead_columns}
FROM dead
WHERE id > $1 AND ($2 OR requeued_ms IS NULL) AND ($3 IS NULL OR kind = $3)
ORDER BY id
LIMIT $4;

-- dead_page [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {dead_columns}
FROM dead
WHERE id > $1 AND ($2::boolean OR requeued_ms IS NULL) AND ($3::text IS NULL OR kind = $3)
ORDER BY id
LIMIT $4;

-- dead_by_subject --
-- One of them.
SELECT {dead_columns} FROM dead WHERE subject = $1;

-- count_dead --
-- Those that nobody has sent again.
SELECT kind, count(*) FROM dead WHERE requeued_ms IS NULL GROUP BY kind;

-- add_dead --
-- What died once is written down once.
INSERT INTO dead (kind, code, reason, body, at_ms, subject)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING;

-- add_dead [postgresql] --
-- The same for many.
INSERT INTO dead (kind, code, reason, body, at_ms, subject)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
ON CONFLICT DO NOTHING
RETURNING subject;

-- requeue_dead --
-- Sent again, by whoever comes first.
UPDATE dead SET requeued_ms = $1, requeued_as = $2 WHERE subject = $3 AND requeued_ms IS NULL RETURNING subject;

-- remove_dead --
-- Somebody has seen it.
DELETE FROM dead WHERE subject = $1 RETURNING subject;

-- forget_dead --
-- A bounded number of the oldest.
DELETE FROM dead WHERE id IN (SELECT id FROM dead WHERE at_ms < $1 ORDER BY at_ms LIMIT $2) RETURNING id;
