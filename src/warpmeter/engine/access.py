"""Who may do what: the engine's own rights where it has them, and a short list for what it does not check.

The engine is opened with a users file of ours. Its one user has rights on tables, and none on any source outside
(files, URLs, other servers), so table functions and table engines that reach the file system or the network fail in
the engine whoever asks. A reader's connection is opened with `readonly=2`, which the engine does not let it leave;
writes, DDL and `SYSTEM` fail in the engine; it takes the profile `reader`, whose constraints bound the memory and the
time of its queries. What it lets a read-only connection do all the same is refused here by name
(`check_reader`); what slips through still meets the kernel's own fence, `sandbox`.
"""

import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import Final

from warpmeter.engine.errors import ACCESS_DENIED, AUTHENTICATION_FAILED, READONLY, refuse
from warpmeter.engine.sqltext import Lexeme, Token

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
# Settings that name a file or a URL to read, carry SQL inside a string, or change the language; nobody needs them here.
_CONSTANT: Final = (
    "format_template_resultset",
    "format_template_row",
    "format_avro_schema_registry_url",
    "additional_table_filters",
    "additional_result_filter",
    "dialect",
)
# A reader's `format_schema` could name any file; `format_schema_source` would say that it does not.
_READER_SETTINGS: Final = frozenset({"format_schema", "format_schema_source"})
# What the engine lets a read-only connection do, in part or without effect, though it only reads to a reader.
_NOT_READING: Final = ("INSERT", "KILL", "SYSTEM", "BACKUP", "RESTORE", "EXECUTE", "BEGIN", "COMMIT", "ROLLBACK")
# Table functions that only compute, or read tables by the reader's rights. All others of the engine are refused to a
# reader by name: some reach outside, and `sqlite` makes a file before any right is asked for, which anywhere in the
# engine's folder keeps the engine from opening again.
_HARMLESS: Final = frozenset({
    "format", "generaterandom", "generateseries", "generate_series", "merge", "mergetreeindex", "mergetreeprojection",
    "null", "numbers", "numbers_mt", "one", "primes", "sqlstandardvalues", "values", "view", "viewifpermitted",
    "zeros", "zeros_mt",
})  # fmt: skip
_NAMING: Final = (Token.WORD, Token.NAME)
# Refused to a reader whatever the engine lists; `file` is an ordinary function too, which reads any file.
_REACHING: Final = frozenset({"file", "python", "sqlite", "executable", "url", "eval", "loop"})

# A reader's query ends after so many seconds, and may set no longer.
READER_SECONDS: Final = 300
# So that one thread's uncounted memory and the number of threads stay small whatever a reader sets.
_READER_AT_MOST: Final = {"max_threads": 64, "max_untracked_memory": 4 << 20}
_READER_PROFILE: Final = "reader"

_CONFIG: Final = """<clickhouse>
<max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>
<users_config>{users}</users_config>
</clickhouse>
"""
# The default profile names both limits, so that a reader that sets the profile is held by the reader's constraints.
_USERS: Final = """<clickhouse>
<profiles>
<default><max_memory_usage>0</max_memory_usage><max_execution_time>0</max_execution_time>
<constraints>{constraints}</constraints></default>
<{reader}><constraints>{constraints}{limits}</constraints></{reader}>
</profiles>
<quotas><default></default></quotas>
<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile>
<quota>default</quota><grants>{grants}</grants></default></users>
</clickhouse>
"""


def memory_bytes() -> int:
    """The memory of this machine, or what its control group leaves this process."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return machine


def reader_memory_bytes() -> int:
    """The most that one query of a reader may hold: a quarter of the memory, and no more than 4 GiB."""
    return min(memory_bytes() // 4, 4 << 30)


def reader_settings() -> str:
    """The statement that makes a connection a reader's, within the profile's constraints from then on.

    A profile's own values do not reach chDB's connections, its constraints do; so the values are set beside it.
    """
    return (
        f"SET profile = '{_READER_PROFILE}', max_memory_usage = {reader_memory_bytes()},"
        f" max_execution_time = {READER_SECONDS}"
    )


def write_configuration(folder: Path) -> Path:
    """Write the engine's configuration and users file into `folder`; returns the path to open the engine with."""
    constraints = "".join(f"<{name}><readonly/></{name}>" for name in _CONSTANT)
    within = {"max_memory_usage": reader_memory_bytes(), "max_execution_time": READER_SECONDS}  # 0 is without end
    limits = "".join(f"<{name}><min>1</min><max>{most}</max></{name}>" for name, most in within.items())
    limits += "".join(f"<{name}><max>{most}</max></{name}>" for name, most in _READER_AT_MOST.items())
    grants = "".join(f"<query>{query}</query>" for query in _GRANTS)
    users = folder / "users.xml"
    users.write_text(_USERS.format(constraints=constraints, limits=limits, grants=grants, reader=_READER_PROFILE))
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


def refused_to_readers(table_functions: Iterable[str]) -> frozenset[str]:
    """Of the engine's table functions those that a reader may not name, in lower case."""
    return (_REACHING | {each.lower() for each in table_functions}) - _HARMLESS


def check_anybody(tokens: Sequence[Lexeme]) -> None:
    """Refuse `sqlite(…)`, table function and table or database engine, to all. Raises EngineError (ACCESS_DENIED)."""
    if any(name == "sqlite" for name in _called(tokens)):
        raise refuse(ACCESS_DENIED, "SQLite is not allowed here.")


def check_reader(tokens: Sequence[Lexeme], settings: Iterable[str], refused: frozenset[str]) -> None:
    """Refuse what the engine would let a read-only connection do. Raises EngineError (ACCESS_DENIED, READONLY).

    That is table functions and functions in `refused`; `format_schema` as a file's name; `KILL QUERY`, as all
    connections are one user to the engine; and `SYSTEM` and other statements that it takes without effect.
    """
    if named := _READER_SETTINGS.intersection(settings):
        raise refuse(ACCESS_DENIED, f"A read-only client cannot set {sorted(named)[0]}.")
    parallel = any(one.is_word("PARALLEL") and two.is_word("WITH") for one, two in pairwise(tokens))
    if parallel or (tokens and tokens[0].is_word(*_NOT_READING)):
        raise refuse(READONLY, "Cannot execute query in readonly mode.")
    for each in tokens:
        if each.token in _NAMING and each.text in _READER_SETTINGS:
            raise refuse(ACCESS_DENIED, f"A read-only client cannot set {each.text}.")
    for name in _called(tokens):
        if name in refused:
            raise refuse(ACCESS_DENIED, f"A read-only client cannot use the function {name}.")


def _called(tokens: Sequence[Lexeme]) -> Iterator[str]:
    """The names that a parenthesis follows, in lower case: functions of all kinds, views, and some that are neither."""
    for one, two in pairwise(tokens):
        if two.text == "(" and two.token is Token.SYMBOL and one.token in _NAMING:
            yield one.text.lower()


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
