"""Pure decisions on arrays: the same input gives the same plan, and nothing here knows a clock, chance or I/O."""
