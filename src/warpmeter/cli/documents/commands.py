"""The reference of the command: every command, argument, option and default, read from the command itself."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast, get_args

from typer.main import get_command

from warpmeter.cli.app import app

INTRODUCTION: Final = """# The command

Made by `make docs` from the command itself; do not edit.

Each part of warpmeter, and all that people ask of it, is `warpmeter COMMAND`. `--help` says the same as this page;
`warpmeter --install-completion` lets the shell complete names of commands, hosts, jobs and metrics. Settings are told
in [configuration](configuration.md).

## Exit statuses

| status | means |
|---|---|
| 0 | done, and nothing was found wrong |
| 1 | a finding, or a failure, which is printed; what a command says of it stands with the command |
| 2 | wrong usage or settings: standard error says which, and what is meant instead |
| 75 | no room, or an insert that failed halfway: start it again |
| 78 | a restart does not mend it: somebody must act |
| 130 | ended by Ctrl-C |

[delivery.md](../delivery.md#running-it) says what a supervisor should do about each. `warpmeter run` ends with the
status of the command that it runs.
"""
MARKUP: Final = re.compile(r"\[/?(?:bold|italic|dim|)\]")
NAMES: Final = {"str": "text", "bool": "", "int": "number", "float": "number", "Path": "path"}
"""What a value is called, by its type; `bool` is a switch."""
OFFERED: Final = ("install_completion", "show_completion")
"""Options that come with every command of this kind."""


def document() -> str:
    """The whole page."""
    root = cast(Any, get_command(app))
    lines = [INTRODUCTION, "## Global options", "", *_table(root), "## Commands", ""]
    for name, command in root.commands.items():
        lines += _section(f"warpmeter {name}", command, "###")
    return "\n".join(lines).rstrip() + "\n"


def _section(name: str, command: Any, level: str) -> Iterator[str]:
    below = getattr(command, "commands", None)
    yield f"{level} {name}\n"
    yield f"{_words(command.help or '')}\n"
    yield f"    {_usage(name, command)}\n"
    yield from _table(command)
    for second, each in (below or {}).items():
        yield from _section(f"{name} {second}", each, f"{level}#")


def _words(text: str) -> str:
    """Help as it is on a terminal; what is between angle brackets stays as it stands."""
    return re.sub(r"<([A-Z_]+)>", r"&lt;\1&gt;", MARKUP.sub("", text))


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    below = ["COMMAND"] if hasattr(command, "commands") else []
    return " ".join([name, "[OPTIONS]", *below, *arguments])


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("[].").upper()
    name += "…" if parameter.nargs != 1 or parameter.multiple else ""
    return name if parameter.required else f"[{name}]"


def _table(command: Any) -> Iterator[str]:
    rows = [_row(each) for each in command.params if not each.hidden and each.name not in OFFERED]
    if rows:
        yield "| option | value | default | meaning |\n|---|---|---|---|"
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""


def _row(parameter: Any) -> Sequence[str]:
    if parameter.param_type_name == "argument":
        return (f"`{_argument(parameter)}`", _value(parameter), _default(parameter), _cell(parameter.help))
    names = " ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return (names, _value(parameter), _default(parameter), _cell(parameter.help))


def _value(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    inner = next((each for each in get_args(kind) if each is not type(None)), kind)
    choices = get_args(inner) or tuple(getattr(inner, "__members__", ()))
    if choices and all(isinstance(each, str) for each in choices):
        return ", ".join(f"`{each}`" for each in choices)
    return NAMES.get(getattr(inner, "__name__", ""), "text")


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    default = parameter.default
    if parameter.required:
        return "needed"
    return "" if default in (None, False, "", (), []) else f"`{default}`"


def _cell(text: str | None) -> str:
    return " ".join(_words(text or "").split()).replace("|", "\\|")
