"""How log lines look: events with fields, as text or JSON."""

import logging
import sys

import structlog

from virtflow.config import Config


def set_up_logging(config: Config) -> None:
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    logging.basicConfig(level=max(level, logging.WARNING), format="%(levelname)s %(name)s %(message)s")
    for library in ("aio_pika", "aiormq"):  # they shout at each try; the queue says each change once
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
    as_json = config.log_format == "json"
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks if as_json else structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer()
            if as_json
            else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
