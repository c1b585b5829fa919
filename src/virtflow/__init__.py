"""Decides where virtual machines and services run on a fleet of bare-metal hosts."""

__version__ = "0.1.0"
