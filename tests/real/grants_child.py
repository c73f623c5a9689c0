"""A process with an engine whose only user is an analyst: `python -m tests.real.grants_child FOLDER [0]`; with
0, a user that may write.

Standard input is JSON: `before`, statements of an engine's owner; `parsed`, statements that are parsed alone; `rights`
and `settings`, what the analyst has; `asked`, statements of the analyst. Standard output is JSON: of each of these
statements what was answered, or the error.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chdb

USERS = """<clickhouse><profiles><default>{values}<constraints>{bounds}</constraints></default></profiles>
<quotas><default/></quotas><users><default><password></password><networks><ip>::/0</ip></networks>
<profile>default</profile><quota>default</quota><grants>{grants}</grants></default></users></clickhouse>"""


def answers(address: str, statements: Sequence[str], first: str = "") -> list[str]:
    """What an engine says to each; `first` sets the session up."""
    connection = chdb.connect(address)
    try:
        if first:
            connection.query(first, "TSV")
        return [answer(connection, each) for each in statements]
    finally:
        connection.close()


def answer(connection: Any, statement: str) -> str:
    """What it says to one."""
    try:
        return str(connection.query(statement, "TSV").bytes().decode())
    except RuntimeError as error:
        return f"error: {error}"


def configured(folder: Path, rights: Sequence[str], settings: dict[str, str]) -> Path:
    """The configuration of an engine whose user has these rights, within these bounds."""
    bounds, values = [], []
    for name, text in settings.items():
        value, *rest = text.split()
        pairs = dict(zip(rest[::2], rest[1::2], strict=False))
        values.append(f"<{name}>{value}</{name}>")
        const = "<readonly/>" if rest == ["CONST"] else ""
        limits = "".join(f"<{word.lower()}>{bound}</{word.lower()}>" for word, bound in pairs.items() if bound)
        bounds.append(f"<{name}>{const or limits}</{name}>")
    grants = "".join(f"<query>{each}</query>" for each in rights)
    users = folder / "users.xml"
    users.write_text(USERS.format(values="".join(values), bounds="".join(bounds), grants=grants))
    config = folder / "config.xml"
    config.write_text(f"<clickhouse><users_config>{users}</users_config></clickhouse>")
    return config


def main() -> None:
    """Do what standard input asks."""
    folder, asked = Path(sys.argv[1]), json.load(sys.stdin)
    data = f"{folder}/data"
    said = answers(data, [*asked["before"], *(f"EXPLAIN AST {each}" for each in asked["parsed"])])
    config = configured(folder, asked["rights"], asked["settings"])
    values = ", ".join(f"{name} = {text.split()[0]}" for name, text in asked["settings"].items() if name != "readonly")
    # A profile's values do not reach chDB's connections, its bounds do: so its values are set here.
    readonly = "&readonly=2" if len(sys.argv) < 3 else ""
    analyst = answers(f"{data}?config-file={config}{readonly}", asked["asked"], f"SET {values}")
    json.dump(
        {"before": said[: len(asked["before"])], "parsed": said[len(asked["before"]) :], "asked": analyst}, sys.stdout
    )


if __name__ == "__main__":
    main()
