"""HTTP in, control out: one module per noun, one parser for every body, one table for every error."""
