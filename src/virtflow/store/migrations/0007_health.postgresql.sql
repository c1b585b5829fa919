-- What each process says is wrong with it; empty when nothing is.

ALTER TABLE process ADD COLUMN unwell TEXT NOT NULL DEFAULT '';
