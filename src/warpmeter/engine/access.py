"""Who may do what: the engine's own rights where it has them, and a short list for what it does not check.

The engine is opened with a users file of ours. Its one user has rights on tables, and none on any source outside
(files, URLs, other servers), so table functions and table engines that reach the file system or the network fail in
the engine whoever asks. A reader's connection is opened with `readonly=2`, which the engine does not let it leave;
writes, DDL and `SYSTEM` fail in the engine. What it lets a read-only connection do all the same is refused here by name
(`check_reader`); what slips through still meets the kernel's own fence, `sandbox`.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import Final

from warpmeter.engine.errors import ACCESS_DENIED, AUTHENTICATION_FAILED, READONLY, refuse
from warpmeter.engine.sqltext import Token, lexemes

WRITER: Final = "warpmeter_writer"


class Access(Enum):
    """What a request may do."""

    READ = auto()
    WRITE = auto()


_TABLE_ENGINES: Final = (
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree",
    "VersionedCollapsingMergeTree", "CoalescingMergeTree", "Memory", "Null", "Merge", "Buffer", "Log", "TinyLog",
    "StripeLog", "Set", "Join", "Dictionary", "GenerateRandom", "View", "MaterializedView",
)  # fmt: skip
# Read and write tables, run the engine; no `SOURCES`, no users, no backups, no introspection.
_GRANTS: Final = (
    "GRANT SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE DICTIONARY, CREATE FUNCTION,"
    " DROP, UNDROP TABLE, TRUNCATE, OPTIMIZE, CHECK, SHOW, KILL QUERY, SYSTEM, dictGet ON *.*",
    *(f"GRANT TABLE ENGINE ON {name}" for name in _TABLE_ENGINES),
)
# Settings that name a file or a URL to read, or carry SQL inside a string; nobody needs them here.
_CONSTANT: Final = (
    "format_template_resultset",
    "format_template_row",
    "format_avro_schema_registry_url",
    "additional_table_filters",
    "additional_result_filter",
)
# A reader's `format_schema` could name any file; `format_schema_source` would say that it does not.
_READER_SETTINGS: Final = frozenset({"format_schema", "format_schema_source"})
# What the engine lets a read-only connection do, in part or without effect, though it only reads to a reader.
_NOT_READING: Final = ("KILL", "SYSTEM", "BACKUP", "RESTORE", "EXECUTE", "BEGIN", "COMMIT", "ROLLBACK")
_PYTHON_OBJECT: Final = re.compile(rb"python\s*\(", re.IGNORECASE)

_CONFIG: Final = "<clickhouse><users_config>{users}</users_config></clickhouse>"
_USERS: Final = """<clickhouse>
<profiles><default><constraints>{constraints}</constraints></default></profiles>
<quotas><default></default></quotas>
<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile>
<quota>default</quota><grants>{grants}</grants></default></users>
</clickhouse>
"""


def write_configuration(folder: Path) -> Path:
    """Write the engine's configuration and users file into `folder`; returns the path to open the engine with."""
    constraints = "".join(f"<{name}><readonly/></{name}>" for name in _CONSTANT)
    grants = "".join(f"<query>{query}</query>" for query in _GRANTS)
    users = folder / "users.xml"
    users.write_text(_USERS.format(constraints=constraints, grants=grants))
    configuration = folder / "config.xml"
    configuration.write_text(_CONFIG.format(users=users))
    return configuration


def of(user: str, password: str, token: str) -> Access:
    """The access that a user and password give: the write token as the password of any user lifts read-only.

    Anybody else reads. Raises EngineError when the writer's name comes with another password.
    """
    if token and hmac.compare_digest(password.encode(), token.encode()):
        return Access.WRITE
    if user == WRITER:
        raise refuse(AUTHENTICATION_FAILED, f"{user}: Authentication failed: the password is not the write token.")
    return Access.READ


def check_reader(text: bytes, settings: Iterable[str]) -> None:
    """Refuse what the engine would let a read-only connection do. Raises EngineError (ACCESS_DENIED).

    That is `file(…)`, which reads any file as a scalar; `format_schema` as a file's name; `Python(…)`, which reads
    variables of this process; `KILL QUERY`, as all connections are one user to the engine; and `SYSTEM` and other
    statements that it takes without effect.
    """
    if named := _READER_SETTINGS.intersection(settings):
        raise refuse(ACCESS_DENIED, f"A read-only client cannot set {sorted(named)[0]}.")
    if _PYTHON_OBJECT.search(text):
        raise refuse(ACCESS_DENIED, "A read-only client cannot use the table function Python.")
    tokens = list(lexemes(text))
    parallel = any(one.is_word("PARALLEL") and two.is_word("WITH") for one, two in pairwise(tokens))
    if parallel or (tokens and tokens[0].is_word(*_NOT_READING)):
        raise refuse(READONLY, "Cannot execute query in readonly mode.")
    for at, each in enumerate(tokens):
        if each.token not in (Token.WORD, Token.NAME):
            continue
        if each.text in _READER_SETTINGS:
            raise refuse(ACCESS_DENIED, f"A read-only client cannot set {each.text}.")
        if each.text == "file" and tokens[at + 1 : at + 2] and tokens[at + 1].text == "(":
            raise refuse(ACCESS_DENIED, "A read-only client cannot read files.")


def credentials(headers: Mapping[str, str], parameters: Mapping[str, str]) -> tuple[str, str]:
    """User and password as clients send them: `X-ClickHouse-User`/`-Key`, basic authorization, or the address."""
    if "x-clickhouse-user" in headers or "x-clickhouse-key" in headers:
        return headers.get("x-clickhouse-user", ""), headers.get("x-clickhouse-key", "")
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        return _basic(rest)
    return parameters.get("user", ""), parameters.get("password", "")


def _basic(encoded: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise refuse(AUTHENTICATION_FAILED, "Authorization: not a basic authorization.") from error
    return user, password
