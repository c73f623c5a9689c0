"""The reference of the settings: every table and key, its type, default and variable, read from their classes."""

import dataclasses
import inspect
import json
import socket
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from warpmeter.cli.documents.meanings import meanings
from warpmeter.config import LISTED, OTHER_VARIABLES, PLACES, PREFIX, TABLES
from warpmeter.settings import Settings, default_data

INTRODUCTION: Final = """# Settings

Made by `make docs` from `src/warpmeter/settings`; do not edit.

Settings come from a TOML file ({places}, `$WARPMETER_CONFIG`, or
`warpmeter --config FILE COMMAND`), from variables, which win over it, and from options of the command, which win over
both. `warpmeter config` shows those in force, with secrets masked.

The variable of a key is `{prefix}<TABLE>__<KEY>`; lists and tables in it are JSON. Where a variable's name ends in
`_FILE`, it names a file that holds the value, as containers and systemd hand secrets over. An unknown key, variable or
value of another type is refused with what is meant instead. Keys that end in `_s` are seconds.

A **secret** is never in a log, in `warpmeter config`, in `doctor` or in an error; see [security](../security.md).
Variables beside those of settings: {others}.

An address that is a secret is shown with its password masked, that of a webhook with its path.
"""
NAMES: Final = {str: "text", bool: "true or false", int: "whole number", float: "number", Path: "path"}


def document() -> str:
    """The whole page."""
    places = ", ".join(f"`{place}`" for place in PLACES)
    others = ", ".join(f"`{name}`" for name in sorted(OTHER_VARIABLES))
    lines = [INTRODUCTION.format(places=places, prefix=PREFIX, others=others)]
    told = meanings()
    for table in TABLES:
        part = getattr(Settings(), table)
        lines += _section(f"[{table}]", table, type(part), told)
        for name, kind in LISTED.items():
            if name.startswith(f"{table}."):
                lines += _section(f"[[{name}]]", name, kind, told)
    return "\n".join(lines).rstrip() + "\n"


def _section(heading: str, table: str, kind: type[Any], told: Mapping[str, str]) -> Iterator[str]:
    listed = heading.startswith("[[")
    yield f"## `{heading}`\n\n{inspect.cleandoc(kind.__doc__ or '')}\n"
    if listed:
        variable = PREFIX + table.replace(".", "__").upper()
        yield f"Each is a table of its own. As a variable: `{variable}`, a JSON list of objects.\n"
    columns = ("key", "type", "default", *(() if listed else ("variable",)), "meaning")
    yield f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        meaning = told[f"{table}.{field.name}"].replace("|", "\\|")
        secret = " **Secret.**" if field.metadata.get("secret") else ""
        variable = "" if listed else f" `{PREFIX}{table.upper()}__{field.name.upper()}` |"
        yield f"| `{field.name}` | {_type(hints[field.name])} | {_default(field)} |{variable} {meaning}.{secret} |"
    yield ""


def _type(hint: Any) -> str:
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return ", ".join(f"`{each}`" if each else "empty" for each in arguments)
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(each) for each in arguments if each is not type(None)))
    if get_origin(hint) is tuple:
        return "list of tables" if dataclasses.is_dataclass(arguments[0]) else f"list: {_type(arguments[0])}"
    return NAMES.get(hint, "table")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is socket.gethostname:
        return "the host's name"
    if field.default_factory is default_data:
        return "`~/.local/share/warpmeter`"
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if value is dataclasses.MISSING:
        return "needed"
    return "" if value in (None, "", (), {}) and value is not False else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
