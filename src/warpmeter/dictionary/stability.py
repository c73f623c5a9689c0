"""The deprecation rule: what of a stable view may go or change, and when."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.dictionary import meanings
from warpmeter.dictionary.catalogue import Catalogue

KEPT_FOR: Final = 2
"""So many minor releases a deprecated column stays."""
RULE: Final = (
    "a stable column is deprecated before it goes or changes: give it the meaning 'deprecated: use X since 0.N' in "
    f"sql/meanings.toml, name it in CHANGELOG.md, and keep it as it is for {KEPT_FOR} minor releases (docs/sql.md)"
)
_DEPRECATED: Final = re.compile(r"deprecated: use .+ since (\d+)\.(\d+)")


@dataclass(frozen=True)
class Promise:
    """A stable column: its type, and what its meaning says of its end ('' while it stays)."""

    type: str
    deprecated: str = ""


Promises = Mapping[str, Mapping[str, Promise]]
"""Stable views with their columns."""


def promised(catalogue: Catalogue) -> Promises:
    """What the stable views and tables of a store have."""
    found = {}
    for name, entry in catalogue.entries.items():
        if meanings.words().get(name, meanings.Words()).stable:
            found[name] = {
                column.name: Promise(column.type, _end(str(catalogue.told(name, column.name))))
                for column in entry.columns
            }
    return found


def read(text: str) -> Promises:
    """Promises as `written` keeps them."""
    return {
        view: {name: Promise(*each.partition("; ")[::2]) for name, each in columns.items()}
        for view, columns in json.loads(text).items()
    }


def written(promises: Promises) -> str:
    """Promises as JSON: of each view's columns the type, and after a semicolon when it was deprecated and for what."""
    told = {
        view: {name: "; ".join(filter(None, (each.type, each.deprecated))) for name, each in columns.items()}
        for view, columns in sorted(promises.items())
    }
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def broken(before: Promises, now: Promises, version: str) -> Iterator[str]:
    """What was promised and does not hold at `version` (`0.5.0`): a view or column that is gone or has another type."""
    for view, columns in before.items():
        for name, promise in columns.items():
            here = now.get(view, {}).get(name)
            if here is not None and here.type == promise.type:
                continue
            if not _over(promise.deprecated, version):
                what = "is gone" if here is None else f"was {promise.type} and is {here.type}"
                yield f"{view}.{name} {what}: {RULE}"


def _end(meaning: str) -> str:
    found = _DEPRECATED.match(meaning)
    return found[0] if found else ""


def _over(deprecated: str, version: str) -> bool:
    """Whether what was deprecated so has been kept for long enough."""
    found = _DEPRECATED.match(deprecated)
    if found is None:
        return False
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) >= (int(found[1]), int(found[2]) + KEPT_FOR)
