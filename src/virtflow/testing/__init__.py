"""Shipped stand-ins for the world: a clock to turn by hand, simulated fleets, a node API. Not for production."""
