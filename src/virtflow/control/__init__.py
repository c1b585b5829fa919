"""Use cases and loops: what happens between a request at the door and a row in the database."""
