-- instance_columns --
-- What `instances.instance_from_row` reads, in its order.
instance.id, instance.shape_id, instance.kind, instance.name, instance.status, instance.host_id, host.name,
    host.address, instance.generation, instance.observed_generation, instance.version, instance.fence,
    instance.created_ms, instance.placed_ms;

-- instance_by_id --
-- One instance.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE instance.id = $1;

-- instance_by_name --
-- One instance that was given a name.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE instance.name = $1;

-- instances_by_id --
-- The existing among these.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE instance.id IN (SELECT value FROM carray($1))
ORDER BY instance.id;

-- instances_by_id [postgresql] --
-- The existing among these, held until the commit. Held first, and joined as they are then: a row that somebody
-- changed while we waited for it would otherwise come with the host it had before.
WITH held AS MATERIALIZED (
    SELECT * FROM instance WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
)
SELECT {instance_columns}
FROM held AS instance LEFT JOIN host ON host.id = instance.host_id
ORDER BY instance.id;

-- instances_page --
-- One page in id order; what is NULL is not asked for.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE
    instance.id > $1
    AND ($2 IS NULL OR instance.status = $2)
    AND ($3 IS NULL OR (instance.host_id IS NOT NULL) = $3)
    AND ($4 IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $4))
ORDER BY instance.id
LIMIT $5;

-- instances_page [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE
    instance.id > $1
    AND ($2::integer IS NULL OR instance.status = $2)
    AND ($3::boolean IS NULL OR (instance.host_id IS NOT NULL) = $3)
    AND ($4::text IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $4))
ORDER BY instance.id
LIMIT $5;

-- instances_of_host --
-- The same on one host. Without an index: it would cost every placement more than this costs (docs/decisions).
SELECT {instance_columns}
FROM instance JOIN host ON host.id = instance.host_id
WHERE
    instance.id > $1
    AND ($2 IS NULL OR instance.status = $2)
    AND ($3 IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $3))
    AND instance.host_id = (SELECT id FROM host WHERE name = $4 AND deleted_ms IS NULL)
ORDER BY instance.id
LIMIT $5;

-- instances_of_host [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {instance_columns}
FROM instance JOIN host ON host.id = instance.host_id
WHERE
    instance.id > $1
    AND ($2::integer IS NULL OR instance.status = $2)
    AND ($3::text IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $3))
    AND instance.host_id = (SELECT id FROM host WHERE name = $4 AND deleted_ms IS NULL)
ORDER BY instance.id
LIMIT $5;

-- instances_waiting --
-- The same without a host, by the index.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE
    instance.host_id IS NULL
    AND instance.id > $1
    AND ($2 IS NULL OR instance.status = $2)
    AND ($3 IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY instance.id
LIMIT $4;

-- instances_waiting [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {instance_columns}
FROM instance LEFT JOIN host ON host.id = instance.host_id
WHERE
    instance.host_id IS NULL
    AND instance.id > $1
    AND ($2::integer IS NULL OR instance.status = $2)
    AND ($3::text IS NULL OR instance.shape_id IN (SELECT id FROM shape WHERE pool = $3))
ORDER BY instance.id
LIMIT $4;

-- taken_names --
-- Which of these names instances bear.
SELECT name FROM instance WHERE name IN (SELECT value FROM carray($1));

-- taken_names [postgresql] --
-- Which of these names instances bear.
SELECT name FROM instance WHERE name = ANY($1::text[]);

-- taken_instance_ids --
-- Which of these ids instances bear.
SELECT id FROM instance WHERE id IN (SELECT value FROM carray($1));

-- taken_instance_ids [postgresql] --
-- Which of these ids instances bear.
SELECT id FROM instance WHERE id = ANY($1::bytea[]);

-- add_instance --
-- A new instance, with or without a host.
INSERT INTO instance (
    shape_id, kind, status, host_id, generation, observed_generation, version, fence, created_ms, placed_ms, name, id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT DO NOTHING;

-- add_instance [postgresql] --
-- New instances, with or without a host. Four times as fast as INSERT, and the first clash ends it.
COPY instance (
    shape_id, kind, status, host_id, generation, observed_generation, version, fence, created_ms, placed_ms, name, id
) FROM STDIN;

-- bind_instance --
-- A waiting instance gets its host; one that is gone or has a host is not changed.
UPDATE instance SET host_id = $1, placed_ms = $2, fence = $3, version = version + 1
WHERE id = $4 AND host_id IS NULL;

-- bind_instance [postgresql] --
-- The same for many, locked in one order.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM instance WHERE id = ANY($4::bytea[]) ORDER BY id FOR UPDATE
)
UPDATE instance SET
    host_id = bind.host_id, placed_ms = bind.placed_ms, fence = bind.fence, version = instance.version + 1
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS bind (host_id, placed_ms, fence, id)
WHERE instance.id = bind.id AND (SELECT count(*) FROM locked) > 0 AND instance.host_id IS NULL
RETURNING instance.id;

-- remove_instance --
-- The row goes; what it held is given back by the caller.
DELETE FROM instance WHERE id = $1;

-- remove_instance [postgresql] --
-- The rows go; what they held is given back by the caller.
DELETE FROM instance WHERE id = ANY($1::bytea[]) RETURNING id;

-- bury_instance --
-- So that deleting it once more is no error.
INSERT INTO gone (deleted_ms, name, id) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET deleted_ms = excluded.deleted_ms, name = excluded.name;

-- bury_instance [postgresql] --
-- So that deleting them once more is no error.
INSERT INTO gone (deleted_ms, name, id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
ON CONFLICT (id) DO UPDATE SET deleted_ms = excluded.deleted_ms, name = excluded.name
RETURNING id;

-- gone_by_id --
-- Was an instance of this id deleted?
SELECT 1 FROM gone WHERE id = $1;

-- gone_by_name --
-- Was an instance of this name deleted?
SELECT 1 FROM gone WHERE name = $1 LIMIT 1;
