"""Other schedulers at the same question, each in a process and a virtual environment of its own."""
