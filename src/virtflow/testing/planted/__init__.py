"""Bugs planted on purpose, at run time and from outside, to see whether anybody would notice them."""
