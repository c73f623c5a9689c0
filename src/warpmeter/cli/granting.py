"""`warpmeter store grants`: the roles of analysts and of parts as SQL, printed or run."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from warpmeter import grants, store
from warpmeter.cli.common import err, out, print_json
from warpmeter.settings import Settings

PASSWORD: Final = "ANALYST_PASSWORD"
_ACCESS_DENIED: Final = 497
_NO_STORAGE: Final = 514


def password(file: Path | None) -> str:
    """The password from a file, without its line's end, or from the variable. Raises GrantsError when there is none, or
    the file holds more than what somebody can type."""
    if file is not None:
        return _typed(file)
    if (found := os.environ.get(PASSWORD)) is None:
        raise grants.GrantsError(f"--user needs a password: give --password-file, or set {PASSWORD}")
    return found


def _typed(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise grants.GrantsError(f"{file} is not UTF-8 text: it must hold the password alone") from error
    if "\n" in text or "\r" in text:
        raise grants.GrantsError(f"{file} has several lines: it must hold the password alone, in one")
    if odd := next((each for each in text if not each.isprintable()), None):
        what = "a byte order mark" if odd == "\ufeff" else f"U+{ord(odd):04X}, which nobody can type"
        raise grants.GrantsError(f"{file} holds {what}: it must hold the password alone, saved as plain UTF-8")
    return text


def show(statements: Sequence[str], as_json: bool) -> None:
    """Print the SQL, each statement with its semicolon."""
    if as_json:
        print_json({"done": False, "statements": statements})
        return
    for statement in statements:
        out.print(f"{statement};", markup=False, highlight=False, soft_wrap=True)


def run(settings: Settings, statements: Sequence[str], role: str, as_json: bool) -> None:
    """Run them, which make `role`.

    Raises GrantsError where the store has no users or gives none away, ClickHouseError as it says it.
    """
    if settings.store.dsn.startswith("chdb:"):
        raise grants.GrantsError(
            "the engine in this process knows no users: who can read its folder can do all. For readers run "
            "`warpmeter engine` (all may read, and nobody write without its token) or a ClickHouse server"
        )
    with store.connect(settings.store, database="default") as client:
        for statement in statements:
            try:
                client.command(statement)
            except store.ClickHouseError as error:
                raise (_explained(error) or error) from error
    if as_json:
        print_json({"done": True, "statements": statements})
    err.print(f"done: {role}", highlight=False)


def _explained(error: store.ClickHouseError) -> grants.GrantsError | None:
    code = store.code(error)
    if code not in (_ACCESS_DENIED, _NO_STORAGE):
        return None
    return grants.GrantsError(
        f"the store does not let this user make roles and users: {store.cause(error).splitlines()[0]}\n"
        "Name one with the right ACCESS MANAGEMENT (--store http://user:password@host:8123), or hand the output of "
        "`warpmeter store grants --print` to who has it. `warpmeter engine` and `up` know no users: there all may "
        "read, and nobody writes without the token"
    )
