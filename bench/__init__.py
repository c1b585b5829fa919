"""Measurements: how fast, how far from the goals, and beside what. `python -m bench --help`."""
