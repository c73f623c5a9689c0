"""How long what a request names may be: an address of the store takes so much, and no name is longer."""

from typing import Final
from urllib.parse import quote

from fastapi import Request

from warpmeter.web.request.times import invalid, missing

MOST: Final = 1000
"""Characters of one value."""
MOST_ENCODED: Final = 3000
"""Bytes of all values together, as in an address: the store takes 4 KiB, with what a question adds."""


async def bounded(request: Request) -> None:
    """A dependency of every endpoint, which waits for no thread.

    404 for a name in the path that is longer than any, 422 for another value.
    """
    for name, value in request.path_params.items():
        if len(str(value)) > MOST or _encoded(str(value)) > MOST_ENCODED:
            raise missing("path", name, f"no name is that long: up to {MOST} characters", str(value)[:100])
    given = request.query_params.multi_items()
    for name, value in given:
        if len(value) > MOST:
            raise invalid(name, f"it has {len(value)} characters; at most {MOST} are taken", value[:100])
    if given and sum(_encoded(value) for _, value in given) > MOST_ENCODED:
        name, value = max(given, key=lambda each: _encoded(each[1]))
        why = f"all values together are longer than {MOST_ENCODED} bytes, as an address has them: this one most"
        raise invalid(name, why, value[:100])


def _encoded(text: str) -> int:
    return len(quote(text, safe="", errors="replace"))
