-- Several processes on one database: who leads, who is there, who wrote what, and what could not be carried out.

ALTER TABLE event ADD COLUMN origin TEXT;
ALTER TABLE task ADD COLUMN trace TEXT;

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    session TEXT NOT NULL,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE process (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    roles TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    body BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    requeued_ms INTEGER,
    requeued_as TEXT
) STRICT;
