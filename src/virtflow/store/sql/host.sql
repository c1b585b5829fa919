-- host_columns --
-- What `hosts.host_from_row` reads, in its order.
host.id, host.spec, host.cordoned, host.source, host.foreign_use, host.missing_since_ms, host.version,
    host.created_ms, host.updated_ms, host.total, host.allocatable, room.instances,
    room.used_cpu, room.used_memory, room.used_disk, room.used_gpu, room.used_vms, room.used_x1, room.used_x2,
    room.used_x3, room.used_x4, room.used_x5, room.used_x6, room.used_x7, room.used_x8;

-- host_by_name --
-- A living host.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.name = $1 AND host.deleted_ms IS NULL;

-- hosts_by_id --
-- The living among these.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.id IN (SELECT value FROM carray($1)) AND host.deleted_ms IS NULL
ORDER BY host.name;

-- hosts_by_id [postgresql] --
-- The living among these.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.id = ANY($1::bigint[]) AND host.deleted_ms IS NULL
ORDER BY host.name;

-- hosts_by_name --
-- The living among these.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.name IN (SELECT value FROM carray($1)) AND host.deleted_ms IS NULL
ORDER BY host.name;

-- hosts_by_name [postgresql] --
-- The living among these.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.name = ANY($1::text[]) AND host.deleted_ms IS NULL
ORDER BY host.name;

-- hosts_of_pool --
-- The living hosts of one pool.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE host.pool = $1 AND host.deleted_ms IS NULL
ORDER BY host.name;

-- hosts_page --
-- One page in name order; what is NULL is not asked for. Labels are a JSON object that the host's must contain.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE
    host.name > $1
    AND host.deleted_ms IS NULL
    AND ($2 IS NULL OR host.pool = $2)
    AND ($3 IS NULL OR host.zone = $3)
    AND ($4 IS NULL OR host.cordoned = $4)
    AND ($5 IS NULL OR (host.missing_since_ms IS NOT NULL) = $5)
    AND ($6 IS NULL OR host.source = $6)
    AND NOT EXISTS (
        SELECT 1 FROM json_each($7) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM json_each(host.spec, '$.labels') AS own
            WHERE own.key = wanted.key AND own.value = wanted.value
        )
    )
ORDER BY host.name
LIMIT $8;

-- hosts_page [postgresql] --
-- The same, with the types that PostgreSQL cannot guess.
SELECT {host_columns}
FROM host JOIN room ON room.host_id = host.id
WHERE
    host.name > $1
    AND host.deleted_ms IS NULL
    AND ($2::text IS NULL OR host.pool = $2)
    AND ($3::text IS NULL OR host.zone = $3)
    AND ($4::boolean IS NULL OR host.cordoned = $4)
    AND ($5::boolean IS NULL OR (host.missing_since_ms IS NOT NULL) = $5)
    AND ($6::text IS NULL OR host.source = $6)
    AND coalesce(host.spec::jsonb -> 'labels', '{}'::jsonb) @> $7::jsonb
ORDER BY host.name
LIMIT $8;

-- living_names --
-- Which of these names living hosts bear.
SELECT name FROM host WHERE name IN (SELECT value FROM carray($1)) AND deleted_ms IS NULL;

-- living_names [postgresql] --
-- Which of these names living hosts bear.
SELECT name FROM host WHERE name = ANY($1::text[]) AND deleted_ms IS NULL;

-- add_host --
-- A new host; its room follows.
INSERT INTO host (
    address, pool, zone, source, cordoned, missing_since_ms, version, created_ms, updated_ms,
    spec, foreign_use, total, allocatable, name
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (name) WHERE deleted_ms IS NULL DO NOTHING;

-- add_host [postgresql] --
-- New hosts; their rooms follow.
INSERT INTO host (
    address, pool, zone, source, cordoned, missing_since_ms, version, created_ms, updated_ms,
    spec, foreign_use, total, allocatable, name
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[]
)
ON CONFLICT (name) WHERE deleted_ms IS NULL DO NOTHING
RETURNING name;

-- host_ids --
-- The ids of living hosts by name.
SELECT name, id FROM host WHERE name IN (SELECT value FROM carray($1)) AND deleted_ms IS NULL;

-- host_ids [postgresql] --
-- The ids of living hosts by name.
SELECT name, id FROM host WHERE name = ANY($1::text[]) AND deleted_ms IS NULL;

-- host_version --
-- The version of a living host, held until the commit where rows can be held.
SELECT version, name FROM host WHERE id = $1 AND deleted_ms IS NULL;

-- host_version [postgresql] --
-- The version of a living host, its row held until the commit.
SELECT version, name FROM host WHERE id = $1 AND deleted_ms IS NULL FOR UPDATE;

-- host_version_by_name --
-- The same by name.
SELECT version, id FROM host WHERE name = $1 AND deleted_ms IS NULL;

-- host_version_by_name [postgresql] --
-- The same by name, its row held until the commit.
SELECT version, id FROM host WHERE name = $1 AND deleted_ms IS NULL FOR UPDATE;

-- change_host --
-- Everything but the cordon, the birth and the ledger.
UPDATE host SET
    name = $1,
    address = $2,
    pool = $3,
    zone = $4,
    source = $5,
    missing_since_ms = $6,
    updated_ms = $7,
    spec = $8,
    foreign_use = $9,
    total = $10,
    allocatable = $11,
    version = version + 1
WHERE id = $12;

-- set_cordon --
-- The cordon alone.
UPDATE host SET cordoned = $1, updated_ms = $2, version = version + 1 WHERE id = $3;

-- bury_host --
-- The row stays as a tombstone: old results still show its name and address.
UPDATE host SET deleted_ms = $1, updated_ms = $1, version = version + 1 WHERE id = $2;

-- dimensions --
-- The custom dimensions, in the order of their slots.
SELECT name FROM dimension ORDER BY slot;

-- add_dimension --
-- A custom dimension gets its slot.
INSERT INTO dimension (slot, name) VALUES ($1, $2) ON CONFLICT DO NOTHING;
