-- The tables of docs/store.md, for PostgreSQL. Rows that change at every commit have free space beside them,
-- so that a new version stays on its page and needs no new entry in an index.

CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO counter (name, value) VALUES ('event', 0), ('fence', 0), ('oldest_event', 1);

CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE dimension (
    slot INTEGER PRIMARY KEY CHECK (slot BETWEEN 1 AND 8),
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE pool (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE TABLE host (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    pool TEXT NOT NULL,
    zone TEXT NOT NULL,
    source TEXT NOT NULL,
    cordoned BOOLEAN NOT NULL DEFAULT false,
    missing_since_ms BIGINT,
    version BIGINT NOT NULL DEFAULT 1,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    deleted_ms BIGINT,
    spec TEXT NOT NULL,
    foreign_use TEXT NOT NULL,
    total TEXT NOT NULL,
    allocatable TEXT NOT NULL
);
CREATE UNIQUE INDEX host_name ON host (name) WHERE deleted_ms IS NULL;
CREATE INDEX host_pool ON host (pool, name) WHERE deleted_ms IS NULL;

CREATE TABLE room (
    host_id BIGINT PRIMARY KEY REFERENCES host (id),
    instances BIGINT NOT NULL DEFAULT 0 CHECK (instances >= 0),
    shrunk BOOLEAN NOT NULL DEFAULT false,
    used_cpu BIGINT NOT NULL DEFAULT 0,
    used_memory BIGINT NOT NULL DEFAULT 0,
    used_disk BIGINT NOT NULL DEFAULT 0,
    used_gpu BIGINT NOT NULL DEFAULT 0,
    used_vms BIGINT NOT NULL DEFAULT 0,
    used_x1 BIGINT NOT NULL DEFAULT 0,
    used_x2 BIGINT NOT NULL DEFAULT 0,
    used_x3 BIGINT NOT NULL DEFAULT 0,
    used_x4 BIGINT NOT NULL DEFAULT 0,
    used_x5 BIGINT NOT NULL DEFAULT 0,
    used_x6 BIGINT NOT NULL DEFAULT 0,
    used_x7 BIGINT NOT NULL DEFAULT 0,
    used_x8 BIGINT NOT NULL DEFAULT 0,
    limit_cpu BIGINT NOT NULL DEFAULT 0,
    limit_memory BIGINT NOT NULL DEFAULT 0,
    limit_disk BIGINT NOT NULL DEFAULT 0,
    limit_gpu BIGINT NOT NULL DEFAULT 0,
    limit_vms BIGINT NOT NULL DEFAULT 0,
    limit_x1 BIGINT NOT NULL DEFAULT 0,
    limit_x2 BIGINT NOT NULL DEFAULT 0,
    limit_x3 BIGINT NOT NULL DEFAULT 0,
    limit_x4 BIGINT NOT NULL DEFAULT 0,
    limit_x5 BIGINT NOT NULL DEFAULT 0,
    limit_x6 BIGINT NOT NULL DEFAULT 0,
    limit_x7 BIGINT NOT NULL DEFAULT 0,
    limit_x8 BIGINT NOT NULL DEFAULT 0,
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
) WITH (fillfactor = 40);

CREATE TABLE shape (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest BYTEA NOT NULL UNIQUE,
    pool TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE instance (
    id BYTEA PRIMARY KEY,
    shape_id BIGINT NOT NULL,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    host_id BIGINT,
    generation BIGINT NOT NULL,
    observed_generation BIGINT NOT NULL,
    version BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    placed_ms BIGINT,
    name TEXT
);
CREATE UNIQUE INDEX instance_name ON instance (name) WHERE name IS NOT NULL;
CREATE INDEX instance_waiting ON instance (id) WHERE host_id IS NULL;

CREATE TABLE task (
    id BYTEA PRIMARY KEY,
    shape_id BIGINT NOT NULL,
    state INTEGER NOT NULL,
    when_unplaceable INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    version BIGINT NOT NULL,
    accepted_ms BIGINT NOT NULL,
    next_try_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    host_id BIGINT,
    deadline_ms BIGINT,
    instance_id BYTEA,
    vm_name TEXT,
    gang BYTEA,
    code TEXT,
    reason TEXT,
    explanation TEXT,
    history TEXT
);
CREATE INDEX task_open ON task (accepted_ms, id) WHERE state < 2;
CREATE INDEX task_refused ON task (state, id) WHERE state > 2;

CREATE TABLE gone (
    id BYTEA PRIMARY KEY,
    deleted_ms BIGINT NOT NULL,
    name TEXT
);
CREATE INDEX gone_name ON gone (name) WHERE name IS NOT NULL;

CREATE TABLE answer (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash BYTEA NOT NULL,
    status INTEGER NOT NULL,
    created_ms BIGINT NOT NULL,
    headers TEXT NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (principal, key)
);
CREATE INDEX answer_created ON answer (created_ms);

CREATE TABLE event (
    last_seq BIGINT PRIMARY KEY,
    first_seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    body BYTEA NOT NULL
);
