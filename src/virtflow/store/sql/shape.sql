-- shapes_by_id --
-- Shapes never change.
SELECT id, body FROM shape WHERE id IN (SELECT value FROM carray($1));

-- shapes_by_id [postgresql] --
-- Shapes never change.
SELECT id, body FROM shape WHERE id = ANY($1::bigint[]);

-- shape_ids --
-- The ids of shapes by digest.
SELECT digest, id FROM shape WHERE digest IN (SELECT value FROM carray($1));

-- shape_ids [postgresql] --
-- The ids of shapes by digest.
SELECT digest, id FROM shape WHERE digest = ANY($1::bytea[]);

-- add_shape --
-- A new shape; nothing when somebody was faster.
INSERT INTO shape (pool, body, digest) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- add_shape [postgresql] --
-- New shapes, sorted by the caller so that two transactions never wait for each other.
INSERT INTO shape (pool, body, digest)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])
ON CONFLICT DO NOTHING
RETURNING digest;
