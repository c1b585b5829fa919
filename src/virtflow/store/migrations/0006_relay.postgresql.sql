-- Since when an outlet fails, and how often it was left behind: every time is an event of its own version.

ALTER TABLE outlet ADD COLUMN failing_since_ms BIGINT;
ALTER TABLE outlet ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
