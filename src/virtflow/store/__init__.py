"""The only SQL. `contract` is what everybody else sees; sqlite and postgres keep it."""
