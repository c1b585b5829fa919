-- delivery_columns --
-- What a message is read from.
    id, line, seq, type, subject, message_id, body, state, tries, next_try_ms, created_ms, since_ms, ended_ms, status,
    code, duration_ms, url, secret

-- newest_delivery --
-- The id that sorts last.
SELECT id FROM delivery ORDER BY id DESC LIMIT 1;

-- waiting_deliveries --
-- The oldest that one line still must send.
SELECT {delivery_columns} FROM delivery WHERE line = $1 AND state = 0 ORDER BY id LIMIT $2;

-- waiting_lines --
-- Which lines have something to send.
SELECT DISTINCT line FROM delivery WHERE state = 0;

-- delivery_by_id --
-- One of them.
SELECT {delivery_columns} FROM delivery WHERE id = $1;

-- deliveries_page --
-- Of one receiver, the newest first.
SELECT {delivery_columns} FROM delivery WHERE line = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- deliveries_page_in --
-- The same in one state.
SELECT {delivery_columns} FROM delivery WHERE line = $1 AND id < $2 AND state = $3 ORDER BY id DESC LIMIT $4;

-- callbacks_page --
-- Of all callbacks, the newest first.
SELECT {delivery_columns} FROM delivery WHERE url <> '' AND id < $1 ORDER BY id DESC LIMIT $2;

-- callbacks_page_in --
-- The same in one state.
SELECT {delivery_columns} FROM delivery WHERE url <> '' AND id < $1 AND state = $2 ORDER BY id DESC LIMIT $3;

-- count_deliveries --
-- How many wait and how many were given up, by line.
SELECT line, state, count(*) FROM delivery WHERE state = 0 OR state = 2 GROUP BY line, state;

-- add_delivery --
-- A new one.
INSERT INTO delivery (
    line, seq, type, subject, message_id, body, state, tries, next_try_ms, created_ms, since_ms, ended_ms, status,
    code, duration_ms, url, secret, id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);

-- add_delivery [postgresql] --
-- New ones.
COPY delivery (
    line, seq, type, subject, message_id, body, state, tries, next_try_ms, created_ms, since_ms, ended_ms, status,
    code, duration_ms, url, secret, id
) FROM STDIN;

-- settle_delivery --
-- How a try ended, if it is still waited for.
UPDATE delivery SET
    state = $1, tries = $2, next_try_ms = $3, ended_ms = $4, status = $5, code = $6, duration_ms = $7
WHERE state = 0 AND id = $8;

-- settle_delivery [postgresql] --
-- The same for many.
UPDATE delivery SET
    state = done.state, tries = done.tries, next_try_ms = done.next_try_ms, ended_ms = done.ended_ms,
    status = done.status, code = done.code, duration_ms = done.duration_ms
FROM unnest(
    $1::integer[], $2::integer[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bigint[], $8::bytea[]
) AS done (state, tries, next_try_ms, ended_ms, status, code, duration_ms, id)
WHERE delivery.id = done.id AND delivery.state = 0
RETURNING delivery.id;

-- hasten_deliveries --
-- All that wait in these lines are due now.
UPDATE delivery SET next_try_ms = $1 WHERE state = 0 AND line IN (SELECT value FROM carray($2));

-- hasten_deliveries [postgresql] --
-- All that wait in these lines are due now.
UPDATE delivery SET next_try_ms = $1 WHERE state = 0 AND line = ANY($2::text[]);

-- deliver_again --
-- It waits as on the first day.
UPDATE delivery SET state = 0, tries = 0, next_try_ms = $1, since_ms = $1, ended_ms = NULL
WHERE state > 0 AND id = $2
RETURNING id;

-- forget_deliveries --
-- Of one line and state, all but the newest.
DELETE FROM delivery
WHERE
    line = $1 AND state = $2
    AND id <= (SELECT id FROM delivery WHERE line = $1 AND state = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)
RETURNING id;

-- forget_callbacks --
-- Of all callbacks in one state, all but the newest.
DELETE FROM delivery
WHERE
    url <> '' AND state = $1
    AND id <= (SELECT id FROM delivery WHERE url <> '' AND state = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)
RETURNING id;

-- drop_deliveries --
-- All of one receiver.
DELETE FROM delivery WHERE line = $1;
