-- The tables of docs/store.md, for SQLite.

CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES ('event', 0), ('fence', 0), ('oldest_event', 1);

CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dimension (
    slot INTEGER PRIMARY KEY CHECK (slot BETWEEN 1 AND 8),
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE pool (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE host (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    pool TEXT NOT NULL,
    zone TEXT NOT NULL,
    source TEXT NOT NULL,
    cordoned INTEGER NOT NULL DEFAULT 0,
    missing_since_ms INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    deleted_ms INTEGER,
    spec TEXT NOT NULL,
    foreign_use TEXT NOT NULL,
    total TEXT NOT NULL,
    allocatable TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX host_name ON host (name) WHERE deleted_ms IS NULL;
CREATE INDEX host_pool ON host (pool, name) WHERE deleted_ms IS NULL;

CREATE TABLE room (
    host_id INTEGER PRIMARY KEY REFERENCES host (id),
    instances INTEGER NOT NULL DEFAULT 0 CHECK (instances >= 0),
    shrunk INTEGER NOT NULL DEFAULT 0,
    used_cpu INTEGER NOT NULL DEFAULT 0,
    used_memory INTEGER NOT NULL DEFAULT 0,
    used_disk INTEGER NOT NULL DEFAULT 0,
    used_gpu INTEGER NOT NULL DEFAULT 0,
    used_vms INTEGER NOT NULL DEFAULT 0,
    used_x1 INTEGER NOT NULL DEFAULT 0,
    used_x2 INTEGER NOT NULL DEFAULT 0,
    used_x3 INTEGER NOT NULL DEFAULT 0,
    used_x4 INTEGER NOT NULL DEFAULT 0,
    used_x5 INTEGER NOT NULL DEFAULT 0,
    used_x6 INTEGER NOT NULL DEFAULT 0,
    used_x7 INTEGER NOT NULL DEFAULT 0,
    used_x8 INTEGER NOT NULL DEFAULT 0,
    limit_cpu INTEGER NOT NULL DEFAULT 0,
    limit_memory INTEGER NOT NULL DEFAULT 0,
    limit_disk INTEGER NOT NULL DEFAULT 0,
    limit_gpu INTEGER NOT NULL DEFAULT 0,
    limit_vms INTEGER NOT NULL DEFAULT 0,
    limit_x1 INTEGER NOT NULL DEFAULT 0,
    limit_x2 INTEGER NOT NULL DEFAULT 0,
    limit_x3 INTEGER NOT NULL DEFAULT 0,
    limit_x4 INTEGER NOT NULL DEFAULT 0,
    limit_x5 INTEGER NOT NULL DEFAULT 0,
    limit_x6 INTEGER NOT NULL DEFAULT 0,
    limit_x7 INTEGER NOT NULL DEFAULT 0,
    limit_x8 INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT room_used_not_negative CHECK (
        used_cpu >= 0
        AND used_memory >= 0
        AND used_disk >= 0
        AND used_gpu >= 0
        AND used_vms >= 0
        AND used_x1 >= 0
        AND used_x2 >= 0
        AND used_x3 >= 0
        AND used_x4 >= 0
        AND used_x5 >= 0
        AND used_x6 >= 0
        AND used_x7 >= 0
        AND used_x8 >= 0
    ),
    CONSTRAINT room_used_within_limit CHECK (
        shrunk
        OR (
            used_cpu <= limit_cpu
            AND used_memory <= limit_memory
            AND used_disk <= limit_disk
            AND used_gpu <= limit_gpu
            AND used_vms <= limit_vms
            AND used_x1 <= limit_x1
            AND used_x2 <= limit_x2
            AND used_x3 <= limit_x3
            AND used_x4 <= limit_x4
            AND used_x5 <= limit_x5
            AND used_x6 <= limit_x6
            AND used_x7 <= limit_x7
            AND used_x8 <= limit_x8
        )
    )
) STRICT;

CREATE TABLE shape (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    pool TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE instance (
    id BLOB PRIMARY KEY,
    shape_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    host_id INTEGER,
    generation INTEGER NOT NULL,
    observed_generation INTEGER NOT NULL,
    version INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    placed_ms INTEGER,
    name TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX instance_name ON instance (name) WHERE name IS NOT NULL;
CREATE INDEX instance_waiting ON instance (id) WHERE host_id IS NULL;

CREATE TABLE task (
    id BLOB PRIMARY KEY,
    shape_id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    when_unplaceable INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    version INTEGER NOT NULL,
    accepted_ms INTEGER NOT NULL,
    next_try_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    host_id INTEGER,
    deadline_ms INTEGER,
    instance_id BLOB,
    vm_name TEXT,
    gang BLOB,
    code TEXT,
    reason TEXT,
    explanation TEXT,
    history TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX task_open ON task (accepted_ms, id) WHERE state < 2;
CREATE INDEX task_refused ON task (state, id) WHERE state > 2;

CREATE TABLE gone (
    id BLOB PRIMARY KEY,
    deleted_ms INTEGER NOT NULL,
    name TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_name ON gone (name) WHERE name IS NOT NULL;

CREATE TABLE answer (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (principal, key)
) STRICT;
CREATE INDEX answer_created ON answer (created_ms);

CREATE TABLE event (
    last_seq INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
