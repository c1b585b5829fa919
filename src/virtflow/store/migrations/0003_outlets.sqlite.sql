-- Who outside is told of events, and how far.

CREATE TABLE outlet (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1,
    error TEXT NOT NULL DEFAULT '',
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
