-- processes --
-- All, in the order of their starts; the last column says how long ago each was seen.
SELECT id, node, roles, address, version, started_ms, unwell, seen_ms, max(0, {now_columns} - seen_ms)
FROM process
ORDER BY started_ms, id;

-- processes [postgresql] --
-- The same.
SELECT id, node, roles, address, version, started_ms, unwell, seen_ms, greatest(0, {now_columns} - seen_ms)
FROM process
ORDER BY started_ms, id;

-- now_columns --
-- By the clock of the database, for that of a process may be wrong.
CAST(unixepoch('subsec') * 1000 AS INTEGER)

-- now_columns [postgresql] --
-- The same.
(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- now --
-- What time it is.
SELECT {now_columns};

-- put_process --
-- It is here, now.
INSERT INTO process (id, node, roles, address, version, started_ms, unwell, seen_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, {now_columns})
ON CONFLICT (id) DO UPDATE SET
    node = excluded.node, roles = excluded.roles, address = excluded.address, version = excluded.version,
    started_ms = excluded.started_ms, unwell = excluded.unwell, seen_ms = excluded.seen_ms;

-- remove_process --
-- It said goodbye.
DELETE FROM process WHERE id = $1;

-- remove_silent_processes --
-- They never will.
DELETE FROM process WHERE seen_ms < {now_columns} - $1;
