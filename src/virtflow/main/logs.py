"""How log lines look: events with fields, as text or JSON, and never with a secret."""

import logging
import re
import sys
import warnings
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.typing import Processor

from virtflow.config import Config

#: the password in a URL, wherever it stands: libraries put URLs into their errors
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/@]+@")


def set_up_logging(config: Config) -> None:
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    as_json = config.log_format == "json"
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # without the variables of each frame: among them are addresses with passwords
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
        if as_json
        else structlog.processors.format_exc_info,
        mask_passwords,
    ]
    last: Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*first, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    _set_up_libraries(max(level, logging.WARNING), first, last)


def _set_up_libraries(level: int, first: list[Processor], last: Processor) -> None:
    """What libraries say looks like what we say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *first],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # aio_pika would say goodbye for a connection that never came about, in whichever thread it is collected
    warnings.filterwarnings("ignore", "coroutine 'Connection.close' was never awaited", RuntimeWarning)
    for library in ("aio_pika", "aiormq"):  # they shout at each try; the queue says each change once
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)


def mask_passwords(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            if "://" in value:
                event[key] = _PASSWORD.sub(r"\1***@", value)
        elif isinstance(value, list):  # a traceback
            event[key] = [_masked(one) for one in value]
    return event


def _masked(value: Any) -> Any:
    match value:
        case str():
            return _PASSWORD.sub(r"\1***@", value)
        case dict():
            return {key: _masked(one) for key, one in value.items()}
        case list():
            return [_masked(one) for one in value]
        case _:
            return value
