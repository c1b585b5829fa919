-- Several processes on one database: who leads, who is there, who wrote what, and what could not be carried out.

ALTER TABLE event ADD COLUMN origin TEXT;
ALTER TABLE task ADD COLUMN trace TEXT;

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    session TEXT NOT NULL,
    since_ms BIGINT NOT NULL
);

CREATE TABLE process (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    roles TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);

CREATE TABLE dead (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    body BYTEA NOT NULL,
    at_ms BIGINT NOT NULL,
    requeued_ms BIGINT,
    requeued_as TEXT
);
