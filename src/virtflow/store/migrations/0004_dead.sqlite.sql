-- Dead letters are found by the id of what died, counted while they are open, and forgotten when they are old.

CREATE UNIQUE INDEX dead_subject ON dead (subject);
CREATE INDEX dead_open ON dead (kind) WHERE requeued_ms IS NULL;
CREATE INDEX dead_at ON dead (at_ms);
