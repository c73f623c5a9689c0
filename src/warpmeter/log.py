"""Structured logs to stderr: JSON lines for machines, coloured lines on a terminal."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from warpmeter.settings import Log

Logger = structlog.typing.FilteringBoundLogger


class Unfailing:
    """This moment's stderr, whose lines are lost when they cannot be written: a full disk must not end who logs."""

    def write(self, text: str) -> int:
        """All of it, or what the disk takes."""
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """As far as that can be."""
        with suppress(OSError):
            sys.stderr.flush()


def setup(settings: Log, part: str) -> Logger:
    """Configure logging of this process once; returns the logger of `part`.

    `format = auto` is console lines on a terminal and JSON elsewhere; colours only on a terminal.
    """
    terminal = sys.stderr.isatty()
    console = settings.format == "console" or (settings.format == "auto" and terminal)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=terminal) if console else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.level.upper())),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, Unfailing())),  # a line in one write
        cache_logger_on_first_use=True,
    )
    return get(part)


def get(part: str) -> Logger:
    """A logger that names its part in every line."""
    logger: Logger = structlog.get_logger(part=part)
    return logger
