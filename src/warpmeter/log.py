"""Structured logs to stderr: JSON lines for machines, coloured lines on a terminal."""

import logging
import sys

import structlog

from warpmeter.settings import Log

Logger = structlog.typing.FilteringBoundLogger


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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    return get(part)


def get(part: str) -> Logger:
    """A logger that names its part in every line."""
    logger: Logger = structlog.get_logger(part=part)
    return logger
