"""Read the settings once: what the command line says, then `WARPMETER_*` variables, then the TOML file.

Unknown keys and impossible pairs are refused with the reason. Never imported by the agent.
"""

import dataclasses
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from warpmeter.config.checks import refuse_impossible
from warpmeter.config.known import LISTED, PREFIX, TABLES, ConfigError
from warpmeter.config.masking import MASK, masked_url, shown
from warpmeter.config.sources import OTHER_VARIABLES, PLACES, Reader, config_path, read_toml, refuse_unknown_variables
from warpmeter.settings import Settings

__all__ = [
    "LISTED",
    "MASK",
    "OTHER_VARIABLES",
    "PLACES",
    "PREFIX",
    "TABLES",
    "ConfigError",
    "load",
    "masked_url",
    "shown",
]
SAID: Final = {"tuple_type": "it must be a list, in [ ]", "dict_type": "it must be a table, in { }"}
"""Of pydantic's words those that speak of Python."""

for _part in (*(type(getattr(Settings(), name)) for name in TABLES), *LISTED.values()):
    setattr(_part, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 - the type does not declare it


def load(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The settings in force.

    `path`: the TOML file, else `$WARPMETER_CONFIG`, else the first of `PLACES` that exists. `overrides`: table ->
    key -> value from the command line. Raises ConfigError for an unreadable file, an unknown key or variable, a
    value of the wrong type, or a pair that cannot work together.
    """
    refuse_unknown_variables()
    file = read_toml(config_path(path))
    if unknown := sorted(file.keys() - TABLES.keys()):
        raise ConfigError(f"unknown table [{unknown[0]}] in the configuration; tables are: {', '.join(TABLES)}")
    try:
        merged = Reader(file=file, **{table: dict(keys) for table, keys in (overrides or {}).items()})
        tables = {name: _decoded(name, getattr(merged, name)) for name in TABLES}
        settings = TypeAdapter(Settings).validate_python(tables)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"a WARPMETER_ variable holds broken JSON: {error}") from error
    refuse_impossible(settings)
    return settings


def _decoded(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Maps and lists may come from a variable, where they are JSON: WARPMETER_KAFKA__OPTIONS='{"…": "…"}'.

    What is to be text is left alone: an expression may begin with a bracket as well.
    """
    wanted = get_type_hints(type(getattr(Settings(), name)))
    return {
        key: json.loads(value) if _is_json(value) and wanted.get(key) is not str else value
        for key, value in table.items()
    }


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("{", "[")


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(str(step) for step in problem["loc"])
        unknown = problem["type"] == "unexpected_keyword_argument"
        what = f"unknown key{_meant(*problem['loc'])}" if unknown else SAID.get(problem["type"], problem["msg"])
        if where in LISTED:
            what += f"; each is a table of its own, [[{where}]] in double brackets"
        lines.append(f"{where}: {what}")
    return "the configuration cannot be used:\n  " + "\n  ".join(lines)


def _meant(*where: int | str) -> str:
    *above, key = where
    table = ".".join(str(step) for step in above)
    part = LISTED[f"{above[0]}.{above[1]}"] if len(above) > 1 else type(getattr(Settings(), str(above[0])))
    names = [field.name for field in dataclasses.fields(part)]
    close = difflib.get_close_matches(str(key), names, 1)
    return f"; did you mean {table}.{close[0]}?" if close else f"; [{table}] has {', '.join(names)}"
