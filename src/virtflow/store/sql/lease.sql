-- lease_columns --
-- Whoever can be seen by nobody else has nobody else's word that he is gone.
lease.name, lease.holder, lease.fence, lease.beat, 1, lease.since_ms

-- lease_columns [postgresql] --
-- The session is named by process number and start, for numbers are used again. Starts of other users are hidden.
lease.name, lease.holder, lease.fence, lease.beat, lease.session = '' OR EXISTS (
    SELECT FROM pg_stat_activity AS it
    WHERE CASE
        WHEN it.backend_start IS NULL THEN starts_with(lease.session, it.pid || ' ')
        ELSE lease.session = it.pid || ' ' || (extract(epoch FROM it.backend_start) * 1000000)::bigint
    END
), lease.since_ms

-- session_columns --
-- Nothing that others could look at.
''

-- session_columns [postgresql] --
-- As `lease_columns` looks for it.
(
    SELECT it.pid || ' ' || (extract(epoch FROM it.backend_start) * 1000000)::bigint
    FROM pg_stat_activity AS it
    WHERE it.pid = pg_backend_pid()
)

-- now_columns --
-- Times of the database, so that those of several machines can be compared.
CAST(unixepoch('subsec') * 1000 AS INTEGER)

-- now_columns [postgresql] --
-- The same.
(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- lease_by_name --
-- As it is now.
SELECT {lease_columns} FROM lease WHERE lease.name = $1;

-- leases --
-- All, in name order.
SELECT {lease_columns} FROM lease ORDER BY lease.name;

-- add_lease --
-- The first holder ever. No row: somebody else was.
INSERT INTO lease (name, holder, fence, beat, session, since_ms)
VALUES ($1, $2, 1, 1, {session_columns}, {now_columns})
ON CONFLICT DO NOTHING
RETURNING {lease_columns};

-- take_lease --
-- A new holder, if all is as it was seen. No row: it is not.
UPDATE lease
SET holder = $1, fence = fence + 1, beat = beat + 1, session = {session_columns}, since_ms = {now_columns}
WHERE lease.name = $2 AND lease.holder = $3 AND lease.fence = $4 AND lease.beat = $5
RETURNING {lease_columns};

-- renew_lease --
-- The holder lives. No row: he holds it no more.
UPDATE lease SET beat = beat + 1
WHERE lease.name = $1 AND lease.holder = $2 AND lease.fence = $3 AND lease.beat = $4
RETURNING {lease_columns};

-- leave_lease --
-- Free for anybody.
UPDATE lease SET holder = '', session = '', beat = beat + 1
WHERE lease.name = $1 AND lease.holder = $2 AND lease.fence = $3;

-- note_lease --
-- What was decided elsewhere, for whoever looks here.
INSERT INTO lease (name, holder, fence, beat, session, since_ms)
VALUES ($1, $2, $3, 1, {session_columns}, {now_columns})
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder, fence = excluded.fence, beat = lease.beat + 1, session = excluded.session,
    since_ms = excluded.since_ms;
