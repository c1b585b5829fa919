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
