-- pool_by_name --
-- The explicit settings of a pool.
SELECT spec, version, created_ms, updated_ms FROM pool WHERE name = $1;

-- pool_has_hosts --
-- Whether a living host names this pool.
SELECT 1 FROM host WHERE pool = $1 AND deleted_ms IS NULL LIMIT 1;

-- all_pools --
-- The explicit ones, and those that living hosts name.
SELECT names.name, pool.spec, pool.version, pool.created_ms, pool.updated_ms
FROM (
    SELECT name FROM pool
    UNION
    SELECT pool FROM host WHERE deleted_ms IS NULL
) AS names
LEFT JOIN pool ON pool.name = names.name
ORDER BY names.name;

-- pool_version --
-- The version of the explicit settings.
SELECT version, spec, created_ms, updated_ms FROM pool WHERE name = $1;

-- pool_version [postgresql] --
-- The same, held until the commit.
SELECT version, spec, created_ms, updated_ms FROM pool WHERE name = $1 FOR UPDATE;

-- add_pool --
-- The first explicit settings; nothing when somebody was faster.
INSERT INTO pool (name, spec, version, created_ms, updated_ms) VALUES ($1, $2, 1, $3, $4)
ON CONFLICT DO NOTHING
RETURNING version;

-- change_pool --
-- New settings.
UPDATE pool SET spec = $1, updated_ms = $2, version = version + 1 WHERE name = $3;

-- delete_pool --
-- Forget the explicit settings.
DELETE FROM pool WHERE name = $1;
