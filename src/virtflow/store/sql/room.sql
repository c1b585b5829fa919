-- take_room --
-- The guard stands in the write: a host that has no room for all of it, or is gone, is not changed.
-- A dimension of which nothing is wanted is not asked: an overfull one must not forbid the others.
UPDATE room SET
    instances = instances + $1,
    used_cpu = used_cpu + $2,
    used_memory = used_memory + $3,
    used_disk = used_disk + $4,
    used_gpu = used_gpu + $5,
    used_vms = used_vms + $6
WHERE
    host_id = $7
    AND ($2 = 0 OR used_cpu + $2 <= limit_cpu)
    AND ($3 = 0 OR used_memory + $3 <= limit_memory)
    AND ($4 = 0 OR used_disk + $4 <= limit_disk)
    AND ($5 = 0 OR used_gpu + $5 <= limit_gpu)
    AND ($6 = 0 OR used_vms + $6 <= limit_vms);

-- take_room_at_once --
-- The same for many hosts; all of them change, or the caller finds out which did not.
WITH wanted (instances, cpu, memory, disk, gpu, vms, host_id) AS (VALUES ($1, $2, $3, $4, $5, $6, $7))
UPDATE room SET
    instances = room.instances + wanted.instances,
    used_cpu = room.used_cpu + wanted.cpu,
    used_memory = room.used_memory + wanted.memory,
    used_disk = room.used_disk + wanted.disk,
    used_gpu = room.used_gpu + wanted.gpu,
    used_vms = room.used_vms + wanted.vms
FROM wanted
WHERE
    room.host_id = wanted.host_id
    AND (wanted.cpu = 0 OR room.used_cpu + wanted.cpu <= room.limit_cpu)
    AND (wanted.memory = 0 OR room.used_memory + wanted.memory <= room.limit_memory)
    AND (wanted.disk = 0 OR room.used_disk + wanted.disk <= room.limit_disk)
    AND (wanted.gpu = 0 OR room.used_gpu + wanted.gpu <= room.limit_gpu)
    AND (wanted.vms = 0 OR room.used_vms + wanted.vms <= room.limit_vms);

-- take_room [postgresql] --
-- All hosts at once. Their rows are locked first and in one order, so that two of these never wait for each other.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM room WHERE host_id = ANY($7::text::bigint[]) ORDER BY host_id FOR UPDATE
)
UPDATE room SET
    instances = room.instances + wanted.instances,
    used_cpu = room.used_cpu + wanted.cpu,
    used_memory = room.used_memory + wanted.memory,
    used_disk = room.used_disk + wanted.disk,
    used_gpu = room.used_gpu + wanted.gpu,
    used_vms = room.used_vms + wanted.vms
FROM unnest(
    $1::text::bigint[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[], $7::text::bigint[]
) AS wanted (instances, cpu, memory, disk, gpu, vms, host_id)
WHERE
    room.host_id = wanted.host_id
    AND (SELECT count(*) FROM locked) > 0
    AND (wanted.cpu = 0 OR room.used_cpu + wanted.cpu <= room.limit_cpu)
    AND (wanted.memory = 0 OR room.used_memory + wanted.memory <= room.limit_memory)
    AND (wanted.disk = 0 OR room.used_disk + wanted.disk <= room.limit_disk)
    AND (wanted.gpu = 0 OR room.used_gpu + wanted.gpu <= room.limit_gpu)
    AND (wanted.vms = 0 OR room.used_vms + wanted.vms <= room.limit_vms)
RETURNING room.host_id;

-- take_custom_room --
-- The same when one of the custom dimensions is wanted; twice as many columns cost twice the time.
UPDATE room SET
    instances = instances + $1,
    used_cpu = used_cpu + $2,
    used_memory = used_memory + $3,
    used_disk = used_disk + $4,
    used_gpu = used_gpu + $5,
    used_vms = used_vms + $6,
    used_x1 = used_x1 + $7,
    used_x2 = used_x2 + $8,
    used_x3 = used_x3 + $9,
    used_x4 = used_x4 + $10,
    used_x5 = used_x5 + $11,
    used_x6 = used_x6 + $12,
    used_x7 = used_x7 + $13,
    used_x8 = used_x8 + $14
WHERE
    host_id = $15
    AND ($2 = 0 OR used_cpu + $2 <= limit_cpu)
    AND ($3 = 0 OR used_memory + $3 <= limit_memory)
    AND ($4 = 0 OR used_disk + $4 <= limit_disk)
    AND ($5 = 0 OR used_gpu + $5 <= limit_gpu)
    AND ($6 = 0 OR used_vms + $6 <= limit_vms)
    AND ($7 = 0 OR used_x1 + $7 <= limit_x1)
    AND ($8 = 0 OR used_x2 + $8 <= limit_x2)
    AND ($9 = 0 OR used_x3 + $9 <= limit_x3)
    AND ($10 = 0 OR used_x4 + $10 <= limit_x4)
    AND ($11 = 0 OR used_x5 + $11 <= limit_x5)
    AND ($12 = 0 OR used_x6 + $12 <= limit_x6)
    AND ($13 = 0 OR used_x7 + $13 <= limit_x7)
    AND ($14 = 0 OR used_x8 + $14 <= limit_x8);

-- take_custom_room [postgresql] --
-- The same for all hosts at once.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM room WHERE host_id = ANY($15::bigint[]) ORDER BY host_id FOR UPDATE
)
UPDATE room SET
    instances = room.instances + wanted.instances,
    used_cpu = room.used_cpu + wanted.cpu,
    used_memory = room.used_memory + wanted.memory,
    used_disk = room.used_disk + wanted.disk,
    used_gpu = room.used_gpu + wanted.gpu,
    used_vms = room.used_vms + wanted.vms,
    used_x1 = room.used_x1 + wanted.x1,
    used_x2 = room.used_x2 + wanted.x2,
    used_x3 = room.used_x3 + wanted.x3,
    used_x4 = room.used_x4 + wanted.x4,
    used_x5 = room.used_x5 + wanted.x5,
    used_x6 = room.used_x6 + wanted.x6,
    used_x7 = room.used_x7 + wanted.x7,
    used_x8 = room.used_x8 + wanted.x8
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
    $15::bigint[]
) AS wanted (instances, cpu, memory, disk, gpu, vms, x1, x2, x3, x4, x5, x6, x7, x8, host_id)
WHERE
    room.host_id = wanted.host_id
    AND (SELECT count(*) FROM locked) > 0
    AND (wanted.cpu = 0 OR room.used_cpu + wanted.cpu <= room.limit_cpu)
    AND (wanted.memory = 0 OR room.used_memory + wanted.memory <= room.limit_memory)
    AND (wanted.disk = 0 OR room.used_disk + wanted.disk <= room.limit_disk)
    AND (wanted.gpu = 0 OR room.used_gpu + wanted.gpu <= room.limit_gpu)
    AND (wanted.vms = 0 OR room.used_vms + wanted.vms <= room.limit_vms)
    AND (wanted.x1 = 0 OR room.used_x1 + wanted.x1 <= room.limit_x1)
    AND (wanted.x2 = 0 OR room.used_x2 + wanted.x2 <= room.limit_x2)
    AND (wanted.x3 = 0 OR room.used_x3 + wanted.x3 <= room.limit_x3)
    AND (wanted.x4 = 0 OR room.used_x4 + wanted.x4 <= room.limit_x4)
    AND (wanted.x5 = 0 OR room.used_x5 + wanted.x5 <= room.limit_x5)
    AND (wanted.x6 = 0 OR room.used_x6 + wanted.x6 <= room.limit_x6)
    AND (wanted.x7 = 0 OR room.used_x7 + wanted.x7 <= room.limit_x7)
    AND (wanted.x8 = 0 OR room.used_x8 + wanted.x8 <= room.limit_x8)
RETURNING room.host_id;

-- give_room --
-- Room comes back; a host stops being overfull when everything fits again. The CHECKs refuse more than was taken.
UPDATE room SET
    instances = instances - $1,
    used_cpu = used_cpu - $2,
    used_memory = used_memory - $3,
    used_disk = used_disk - $4,
    used_gpu = used_gpu - $5,
    used_vms = used_vms - $6,
    used_x1 = used_x1 - $7,
    used_x2 = used_x2 - $8,
    used_x3 = used_x3 - $9,
    used_x4 = used_x4 - $10,
    used_x5 = used_x5 - $11,
    used_x6 = used_x6 - $12,
    used_x7 = used_x7 - $13,
    used_x8 = used_x8 - $14,
    shrunk = shrunk AND (
        used_cpu - $2 > limit_cpu
        OR used_memory - $3 > limit_memory
        OR used_disk - $4 > limit_disk
        OR used_gpu - $5 > limit_gpu
        OR used_vms - $6 > limit_vms
        OR used_x1 - $7 > limit_x1
        OR used_x2 - $8 > limit_x2
        OR used_x3 - $9 > limit_x3
        OR used_x4 - $10 > limit_x4
        OR used_x5 - $11 > limit_x5
        OR used_x6 - $12 > limit_x6
        OR used_x7 - $13 > limit_x7
        OR used_x8 - $14 > limit_x8
    )
WHERE host_id = $15;

-- give_room [postgresql] --
-- The same for all hosts at once, locked in the same order as they are taken.
WITH locked AS MATERIALIZED (
    SELECT 1 FROM room WHERE host_id = ANY($15::bigint[]) ORDER BY host_id FOR UPDATE
)
UPDATE room SET
    instances = room.instances - given.instances,
    used_cpu = room.used_cpu - given.cpu,
    used_memory = room.used_memory - given.memory,
    used_disk = room.used_disk - given.disk,
    used_gpu = room.used_gpu - given.gpu,
    used_vms = room.used_vms - given.vms,
    used_x1 = room.used_x1 - given.x1,
    used_x2 = room.used_x2 - given.x2,
    used_x3 = room.used_x3 - given.x3,
    used_x4 = room.used_x4 - given.x4,
    used_x5 = room.used_x5 - given.x5,
    used_x6 = room.used_x6 - given.x6,
    used_x7 = room.used_x7 - given.x7,
    used_x8 = room.used_x8 - given.x8,
    shrunk = room.shrunk AND (
        room.used_cpu - given.cpu > room.limit_cpu
        OR room.used_memory - given.memory > room.limit_memory
        OR room.used_disk - given.disk > room.limit_disk
        OR room.used_gpu - given.gpu > room.limit_gpu
        OR room.used_vms - given.vms > room.limit_vms
        OR room.used_x1 - given.x1 > room.limit_x1
        OR room.used_x2 - given.x2 > room.limit_x2
        OR room.used_x3 - given.x3 > room.limit_x3
        OR room.used_x4 - given.x4 > room.limit_x4
        OR room.used_x5 - given.x5 > room.limit_x5
        OR room.used_x6 - given.x6 > room.limit_x6
        OR room.used_x7 - given.x7 > room.limit_x7
        OR room.used_x8 - given.x8 > room.limit_x8
    )
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
    $15::bigint[]
) AS given (instances, cpu, memory, disk, gpu, vms, x1, x2, x3, x4, x5, x6, x7, x8, host_id)
WHERE room.host_id = given.host_id AND (SELECT count(*) FROM locked) > 0
RETURNING room.host_id;

-- add_room --
-- The room of a new host.
INSERT INTO room (
    limit_cpu, limit_memory, limit_disk, limit_gpu, limit_vms, limit_x1, limit_x2, limit_x3, limit_x4, limit_x5,
    limit_x6, limit_x7, limit_x8, host_id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- add_room [postgresql] --
-- The rooms of new hosts.
INSERT INTO room (
    limit_cpu, limit_memory, limit_disk, limit_gpu, limit_vms, limit_x1, limit_x2, limit_x3, limit_x4, limit_x5,
    limit_x6, limit_x7, limit_x8, host_id
)
SELECT * FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[]
)
RETURNING host_id;

-- limit_room --
-- What the world says about a host is recorded even when it has less than was given away: then it is overfull.
UPDATE room SET
    limit_cpu = $1,
    limit_memory = $2,
    limit_disk = $3,
    limit_gpu = $4,
    limit_vms = $5,
    limit_x1 = $6,
    limit_x2 = $7,
    limit_x3 = $8,
    limit_x4 = $9,
    limit_x5 = $10,
    limit_x6 = $11,
    limit_x7 = $12,
    limit_x8 = $13,
    shrunk = (
        used_cpu > $1
        OR used_memory > $2
        OR used_disk > $3
        OR used_gpu > $4
        OR used_vms > $5
        OR used_x1 > $6
        OR used_x2 > $7
        OR used_x3 > $8
        OR used_x4 > $9
        OR used_x5 > $10
        OR used_x6 > $11
        OR used_x7 > $12
        OR used_x8 > $13
    )
WHERE host_id = $14;

-- remove_room --
-- Only an empty host can go; the condition stands in the write.
DELETE FROM room WHERE host_id = $1 AND instances = 0
RETURNING host_id;
