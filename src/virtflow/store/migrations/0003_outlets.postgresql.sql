-- Who outside is told of events, and how far.

CREATE TABLE outlet (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cursor BIGINT NOT NULL,
    enabled BOOLEAN NOT NULL DEFAULT true,
    error TEXT NOT NULL DEFAULT '',
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
) WITH (fillfactor = 50);
