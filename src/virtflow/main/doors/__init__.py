"""What the command line knocks at: one file for each door."""
