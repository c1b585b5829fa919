-- number_events --
-- Whoever holds this row commits next: numbers are in commit order and without gaps.
UPDATE counter SET value = value + $1 WHERE name = 'event' RETURNING value;

-- number_events [postgresql] --
-- The same, and who listens is told at the commit.
WITH numbered AS (UPDATE counter SET value = value + $1 WHERE name = 'event' RETURNING value)
SELECT value, pg_notify('virtflow', value::text) FROM numbered;

-- add_events --
-- One row carries many events of one commit, as a JSON array; their numbers follow from its place.
INSERT INTO event (first_seq, at_ms, body, origin, last_seq) VALUES ($1, $2, $3, $4, $5);

-- add_events [postgresql] --
-- The same for all rows of a commit.
INSERT INTO event (first_seq, at_ms, body, origin, last_seq)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[])
RETURNING last_seq;

-- events_after --
-- Rows that hold events after a number.
SELECT first_seq, last_seq, body, origin FROM event WHERE last_seq > $1 ORDER BY last_seq LIMIT $2;

-- events_between --
-- Rows that hold events after a number and up to another. The last condition only helps to find them.
SELECT first_seq, last_seq, body, origin FROM event
WHERE last_seq > $1 AND first_seq <= $2 AND last_seq < $3
ORDER BY last_seq;

-- events_of_others --
-- Rows after a number and up to another that some other process wrote.
SELECT first_seq, last_seq, body, origin FROM event
WHERE last_seq > $1 AND last_seq <= $2 AND (origin IS NULL OR origin <> $3)
ORDER BY last_seq
LIMIT $4;

-- event_range --
-- The oldest number kept, and the newest given.
SELECT
    (SELECT value FROM counter WHERE name = 'oldest_event'),
    (SELECT value FROM counter WHERE name = 'event');

-- keep_events_from --
-- Events before this number are forgotten. Never goes back.
UPDATE counter SET value = $1 WHERE name = 'oldest_event' AND value < $1 RETURNING value;

-- drop_events --
-- A bounded number of rows that hold only forgotten events.
DELETE FROM event
WHERE last_seq IN (SELECT last_seq FROM event WHERE last_seq < $1 ORDER BY last_seq LIMIT $2)
RETURNING last_seq;
