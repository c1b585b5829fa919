-- history_counters --
-- The newest number, the oldest kept, the fence.
SELECT name, value FROM counter WHERE name > $1 ORDER BY name LIMIT $2;

-- history_leases --
-- Who holds which office, under which fence.
SELECT name, holder, fence FROM lease WHERE name > $1 ORDER BY name LIMIT $2;

-- history_outlets --
-- How far each was told.
SELECT name, kind, cursor, enabled FROM outlet WHERE name > $1 ORDER BY name LIMIT $2;

-- history_pools --
-- Explicit settings.
SELECT name, version FROM pool WHERE name > $1 ORDER BY name LIMIT $2;

-- history_dimensions --
-- The names of the custom ones.
SELECT slot, name FROM dimension WHERE slot > $1 ORDER BY slot LIMIT $2;

-- history_hosts --
-- Living and dead.
SELECT id, name, cordoned, version, deleted_ms, allocatable FROM host WHERE id > $1 ORDER BY id LIMIT $2;

-- history_rooms --
-- The ledger.
SELECT
    host_id, instances, shrunk,
    used_cpu, used_memory, used_disk, used_gpu, used_vms,
    used_x1, used_x2, used_x3, used_x4, used_x5, used_x6, used_x7, used_x8,
    limit_cpu, limit_memory, limit_disk, limit_gpu, limit_vms,
    limit_x1, limit_x2, limit_x3, limit_x4, limit_x5, limit_x6, limit_x7, limit_x8
FROM room
WHERE host_id > $1
ORDER BY host_id
LIMIT $2;

-- history_shapes --
-- What a request of each shape takes is in its body.
SELECT id, body FROM shape WHERE id > $1 ORDER BY id LIMIT $2;

-- history_instances --
-- Who takes what from whom.
SELECT id, shape_id, host_id, version, fence, name FROM instance WHERE id > $1 ORDER BY id LIMIT $2;

-- history_tasks --
-- Every request and its end.
SELECT id, state, when_unplaceable, attempt, version, host_id, ended_ms, deadline_ms
FROM task
WHERE id > $1
ORDER BY id
LIMIT $2;

-- history_gone --
-- The deleted.
SELECT id FROM gone WHERE id > $1 ORDER BY id LIMIT $2;

-- history_answers --
-- What was answered to whom, and under which key.
SELECT id, principal, key, status, body FROM answer WHERE id > $1 ORDER BY id LIMIT $2;

-- history_deliveries --
-- What receivers of webhooks are owed, and were told.
SELECT id, seq, state, line FROM delivery WHERE id > $1 ORDER BY id LIMIT $2;

-- history_log --
-- The event log, by rows.
SELECT last_seq, first_seq, origin, body FROM event WHERE last_seq > $1 ORDER BY last_seq LIMIT $2;
