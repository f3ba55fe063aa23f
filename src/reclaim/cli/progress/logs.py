"""Logs on stderr: text lines for people, or JSON lines for programs. Times are in UTC."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from reclaim.cli.options.verbosity import Verbosity
from reclaim.model import instant_text


@contextmanager
def logging_to_stderr(verbosity: Verbosity) -> Iterator[None]:
    """Log to stderr in the block, at the given level; nothing without a level."""
    if not verbosity.level:
        # Otherwise Python would write warnings to stderr, next to our own message.
        logging.getLogger("reclaim.run").addHandler(_NOWHERE)
        yield
        return
    logger = logging.getLogger("reclaim")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if verbosity.format == "json" else TextLine())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(verbosity.level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


_NOWHERE = logging.NullHandler()


class TextLine(logging.Formatter):
    """Time, level, logger and message."""

    def __init__(self) -> None:
        super().__init__("%(logged_at)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.logged_at = logged_at(record)
        return super().format(record)


class JsonLine(logging.Formatter):
    """A JSON object: time, level, logger, message, and the fields of the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": logged_at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value for name, value in getattr(record, "fields", {}).items() if name not in line
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def logged_at(record: logging.LogRecord) -> str:
    """Format the time of a record, to the millisecond."""
    return instant_text(datetime.fromtimestamp(record.created, UTC), "milliseconds")
