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
    failing_since_ms INTEGER,
    retry_ms INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    work INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery (
    id BLOB PRIMARY KEY,
    line TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    subject TEXT NOT NULL,
    message_id TEXT NOT NULL,
    body BLOB NOT NULL,
    state INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    next_try_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    status INTEGER NOT NULL DEFAULT 0,
    code TEXT NOT NULL DEFAULT '',
    duration_ms INTEGER NOT NULL DEFAULT 0,
    url TEXT NOT NULL DEFAULT '',
    secret TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_by_line ON delivery (line, state, id);
CREATE INDEX delivery_of_callbacks ON delivery (id) WHERE url <> '';

CREATE TABLE callback (
    task_id BLOB PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL
) STRICT, WITHOUT ROWID;
