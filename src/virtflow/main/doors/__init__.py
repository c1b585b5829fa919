"""What the command line knocks at: one file for each door."""

from virtflow.main.doors.light import import_structlog

import_structlog()
