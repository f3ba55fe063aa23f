"""Logs on stderr: lines for people, or one JSON object in each line for programs; times in UTC."""

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
def logging_to_stderr(asked: Verbosity) -> Iterator[None]:
    """Log in the block what was asked for; nothing if no level was."""
    if not asked.level:
        # Otherwise Python would write what goes wrong to stderr, beside our own message.
        logging.getLogger("reclaim.run").addHandler(_NOWHERE)
        yield
        return
    logger = logging.getLogger("reclaim")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if asked.format == "json" else TextLine())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(asked.level.upper())
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
    """One JSON object: time, level, logger, message, and the facts that the message states."""

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
    """The time of a record, to the millisecond."""
    return instant_text(datetime.fromtimestamp(record.created, UTC), "milliseconds")
