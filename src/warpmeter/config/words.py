"""What names, addresses and headers must look like, and lists of tables with names."""

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

from warpmeter.config.known import ConfigError

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+: [ -~]*")
URL: Final = re.compile(r"https?://[^/\s]+(/\S*)?")


class Named(Protocol):
    """A table of a list, which has a name of its own."""

    @property
    def name(self) -> str:
        """What it is called in messages, and by others."""


Table = TypeVar("Table", bound=Named)


def refuse_any(where: str, tables: Sequence[Table], problem: Callable[[Table], str]) -> None:
    """Raises ConfigError for the first without a name of its own, or with a `problem` (in words, '' for none)."""
    names = [table.name for table in tables]
    for table in tables:
        plain = NAME.fullmatch(table.name) and names.count(table.name) == 1
        named = "" if plain else "give each a name of its own, of letters, digits, '.', '_' and '-'"
        if found := named or problem(table):
            raise ConfigError(f"{where} {table.name!r}: {found}")


def is_url(text: str) -> bool:
    """Whether it is an address of http or https."""
    try:
        return URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # no port
        return False
