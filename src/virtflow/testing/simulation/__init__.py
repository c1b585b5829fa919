"""Many processes in one thread: the real control code with seeded time, network, database, broker and deaths."""
