-- free_fence --
-- There is nobody who could hold it.
SELECT 1 WHERE 1 = 0;

-- free_fence [postgresql] --
-- A session that was cut off between two messages of one statement counts as active, and no time-out of the server
-- ends it: whoever was a leader then would hold the fence for ever. Its transaction can only be rolled back.
-- Who holds it for another reason is waited for, but not long: the next try looks again.
SELECT set_config('lock_timeout', '2500ms', true), count(pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE
    datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
    AND state = 'active' AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '2 seconds';

-- take_fence --
-- The next epoch.
UPDATE counter SET value = value + 1 WHERE name = 'fence' RETURNING value;

-- fence --
-- The newest epoch; nobody can raise it until the commit.
SELECT value FROM counter WHERE name = 'fence';

-- fence [postgresql] --
-- The newest epoch; nobody can raise it until the commit.
SELECT value FROM counter WHERE name = 'fence' FOR SHARE;

-- raise_fence --
-- So far beyond that of every leader there ever was.
UPDATE counter SET value = value + $1 WHERE name = 'fence';
