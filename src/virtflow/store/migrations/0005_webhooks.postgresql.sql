-- Receivers of webhooks, what each was told and must be told, and who wants to hear of the end of one task.

CREATE TABLE webhook (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    events TEXT NOT NULL,
    secrets TEXT NOT NULL,
    state INTEGER NOT NULL,
    code TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since_ms BIGINT,
    retry_ms BIGINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL DEFAULT 1,
    work BIGINT NOT NULL DEFAULT 0,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE TABLE delivery (
    id BYTEA PRIMARY KEY,
    line TEXT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    subject TEXT NOT NULL,
    message_id TEXT NOT NULL,
    body BYTEA NOT NULL,
    state INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    next_try_ms BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    status INTEGER NOT NULL DEFAULT 0,
    code TEXT NOT NULL DEFAULT '',
    duration_ms BIGINT NOT NULL DEFAULT 0,
    url TEXT NOT NULL DEFAULT '',
    secret TEXT NOT NULL DEFAULT ''
);

CREATE INDEX delivery_by_line ON delivery (line, state, id);
CREATE INDEX delivery_of_callbacks ON delivery (id) WHERE url <> '';

CREATE TABLE callback (
    task_id BYTEA PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL
);
