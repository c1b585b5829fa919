"""The command line: commands on the client. `app.main` is the program."""
