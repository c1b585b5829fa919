-- setting --
-- One small value of our own.
SELECT value FROM setting WHERE key = $1;

-- set_setting --
-- Set or replace it.
INSERT INTO setting (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- alive --
-- Does it answer?
SELECT 1;
