"""What names, addresses and headers must look like."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+: [ -~]*")
URL: Final = re.compile(r"https?://[^/\s]+(/\S*)?")


def name_problem(name: str, names: Sequence[str]) -> str:
    """Why a table of a list cannot be called so beside the others, '' where it can."""
    plain = NAME.fullmatch(name) and names.count(name) == 1
    return "" if plain else "give each a name of its own, of letters, digits, '.', '_' and '-'"


def is_url(text: str) -> bool:
    """Whether it is an address of http or https."""
    try:
        return URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # no port
        return False
