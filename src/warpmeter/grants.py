"""Who may do what in ClickHouse, as SQL: for analysts a role that reads, the limits of its queries, its quota, a user;
for each part of warpmeter a role with the least that its statements need.

    for statement in statements(store, Limits(), analyst("ada", password)):
        client.command(statement)

Every statement can be run again: what is there is altered to this, and a user keeps other roles that it has. Nothing
of it is for the embedded engine (`chdb://`, `warpmeter engine`), which knows no users: its endpoint lets everybody
read and nobody write who has no write token (docs/bi.md).
"""

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from warpmeter import landing
from warpmeter.migrate import identifier, literal
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Store

HIDDEN: Final = ("dead_letters",)
"""Tables that analysts do not read: messages as they came, whatever is in them."""
SYSTEM: Final = ("columns", "data_type_families", "databases", "formats", "functions", "settings", "tables", "one")
"""Of the engine's own tables what clients and BI tools ask to show what there is."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}")


class GrantsError(ValueError):
    """A name or limit cannot be meant; the message says which and what to write."""


@dataclass(frozen=True)
class Limits:
    """What one query may cost, and all of a user's within an hour. Each is a bound that its session cannot lift."""

    seconds: int = 60
    """A query ends after so many; a session may ask for up to `SECONDS_AT_MOST`."""
    memory_bytes: int = 8 << 30
    result_rows: int = 1_000_000
    rows_to_read: int = 20_000_000_000
    queries_per_hour: int = 3_600
    seconds_per_hour: int = 7_200
    """CPU-independent: the time that its queries ran, added up."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise GrantsError(f"{name} is {value}: it must be 1 or more")
        if self.seconds > SECONDS_AT_MOST:
            raise GrantsError(f"seconds is {self.seconds}: a query may take {SECONDS_AT_MOST} at most")


SECONDS_AT_MOST: Final = 600
_ROWS_AT_MOST: Final = 10
"""A session may ask for so many times `result_rows`."""


@dataclass(frozen=True)
class User:
    """A user to be made: its password is known to the store as a salted SHA-256 alone."""

    name: str
    hash: str
    salt: str


def user(name: str, password: str, salt: str | None = None) -> User:
    """A user with this password. Raises GrantsError for a name that is none, or a password that is short."""
    if not _NAME.fullmatch(name):
        raise GrantsError(f"{name!r} cannot name a user: use letters, digits, '_', '.', '@' and '-'")
    if len(password) < 12:
        raise GrantsError(f"the password of {name} has {len(password)} characters: give it 12 or more")
    salt = secrets.token_hex(16) if salt is None else salt
    return User(name, hashlib.sha256(f"{password}{salt}".encode()).hexdigest(), salt)


def role(store: Store) -> str:
    """The name of the analysts' role, settings profile and quota: one for each database."""
    return f"{store.database}_analyst"


def statements(store: Store, limits: Limits, who: User | None = None) -> tuple[str, ...]:
    """All that makes the role, its limits and quota, and `who`; in the order in which they run."""
    on = f" ON CLUSTER {identifier(store.cluster)}" if store.cluster else ""
    name = identifier(role(store))
    found = [*_profile(name, on, limits), *_role(store, name, on), *_quota(name, on, limits)]
    return tuple(found if who is None else [*found, *_user(name, on, who)])


def _profile(name: str, on: str, limits: Limits) -> Iterator[str]:
    """`readonly = 2`: BI tools set settings of their own, within these bounds; a session cannot leave it."""
    settings = ", ".join(f"{setting} = {bound}" for setting, bound in profile(limits).items())
    yield f"CREATE SETTINGS PROFILE IF NOT EXISTS {name}{on}"
    yield f"ALTER SETTINGS PROFILE {name}{on} SETTINGS {settings}"


def profile(limits: Limits) -> Mapping[str, str]:
    """Every setting of the profile: its value, and within which bounds a session may change it."""
    rows = f"{limits.result_rows} MIN 1 MAX {limits.result_rows * _ROWS_AT_MOST}"
    return {
        "readonly": "2 CONST",
        "allow_ddl": "0 CONST",
        "max_execution_time": f"{limits.seconds} MIN 1 MAX {SECONDS_AT_MOST}",
        "max_memory_usage": f"{limits.memory_bytes} MIN 1 MAX {limits.memory_bytes}",
        "max_result_rows": rows,
        "max_rows_to_read": f"{limits.rows_to_read} MIN 1 MAX {limits.rows_to_read}",
    }


def _role(store: Store, name: str, on: str) -> Iterator[str]:
    yield f"CREATE ROLE IF NOT EXISTS {name}{on}"
    yield f"ALTER ROLE {name}{on} SETTINGS PROFILE {name}"
    for right in rights(store):
        verb, rest = right.split(" ", 1)
        yield f"{verb}{on} {rest} {'FROM' if verb == 'REVOKE' else 'TO'} {name}"


def rights(store: Store) -> tuple[str, ...]:
    """What the role may do. A view reads its tables by the rights of who asks, so these are granted too."""
    database = identifier(store.database)
    hidden = {table for each in HIDDEN for table in (each, store.local(each))}
    return (
        f"GRANT SELECT ON {database}.*",
        *(f"REVOKE SELECT ON {database}.{identifier(table)}" for table in sorted(hidden)),
        *(f"GRANT SELECT ON system.{table}" for table in SYSTEM),
    )


def _quota(name: str, on: str, limits: Limits) -> Iterator[str]:
    most = f"queries = {limits.queries_per_hour}, execution_time = {limits.seconds_per_hour}"
    yield f"CREATE QUOTA IF NOT EXISTS {name}{on} KEYED BY user_name"
    yield f"ALTER QUOTA {name}{on} KEYED BY user_name FOR INTERVAL 1 hour MAX {most} TO {name}"


def _user(name: str, on: str, who: User) -> Iterator[str]:
    quoted = f"`{who.name}`"
    identified = f"IDENTIFIED WITH sha256_hash BY {literal(who.hash)} SALT {literal(who.salt)}"
    yield f"CREATE USER IF NOT EXISTS {quoted}{on} {identified}"
    yield f"ALTER USER {quoted}{on} {identified} SETTINGS PROFILE {name}"
    yield f"GRANT{on} {name} TO {quoted}"
    yield f"ALTER USER {quoted}{on} DEFAULT ROLE {name}"


@dataclass(frozen=True)
class Part:
    """The least that a part of warpmeter asks of the store: what its SQL needs and nothing else.

    `rights`: of its database, verbs and the tables that they are for, `*` all. `system`: tables of the engine that it
    reads. `everywhere`: rights that are of no database; those of a cluster's statements are added on a cluster.
    `settings`: bounds of its sessions. `on_cluster`: it sends statements `ON CLUSTER`.
    """

    rights: Mapping[str, Sequence[str]]
    system: Sequence[str] = ("tables",)
    everywhere: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    on_cluster: bool = False


_RAW: Final = tuple(sorted({topic.table for topic in TOPICS.values()}))
_LOADS: Final = tuple(f"{table}_loads" for table in (landing.RANKS, *landing.TABLES))
_ALL: Final = ("*",)
_SCHEMA: Final = "SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP, TRUNCATE"

PARTS: Final[Mapping[str, Part]] = {
    "migrate": Part(
        {_SCHEMA: _ALL}, ("tables", "columns", "mutations", "merges", "parts", "settings", "functions"), ("REMOTE",),
        on_cluster=True,
    ),
    "ingest": Part(
        {"INSERT": (*_RAW, *(f"{table}_judge" for table in _RAW)), "SELECT": ("ingest_batches",)},
        settings={"allow_ddl": "0 CONST"},
    ),
    "scheduler": Part({"SELECT": _ALL, "INSERT, ALTER DELETE": _LOADS}, ("tables", "disks"), on_cluster=True),
    "web": Part(
        {"SELECT": _ALL}, ("tables", "columns", "functions", "settings", "one"),
        settings={"readonly": "2 CONST", "allow_ddl": "0 CONST"},
    ),
}  # fmt: skip
"""`replay` and `dead-letters replay` make tables and delete rows: they run as `migrate`, and so do people who mend."""


def part_role(store: Store, part: str) -> str:
    """The name of a part's role, profile and quota."""
    return f"{store.database}_{part}"


def part_rights(store: Store, part: str) -> tuple[str, ...]:
    """What a part's role may do. On a cluster it writes tables of a shard, and reads those and what spans them."""
    wants, database = PARTS[part], identifier(store.database)
    found = []
    for verbs, tables in wants.rights.items():
        for table in tables:
            found += [f"GRANT {verbs} ON {database}.{each}" for each in _meant(store, verbs, table)]
    found += [f"GRANT SELECT ON system.{table}" for table in wants.system]
    found += [f"GRANT {right} ON *.*" for right in wants.everywhere if store.cluster]
    return (*found, *(["GRANT CLUSTER ON *.*"] if store.cluster and wants.on_cluster else []))


def _meant(store: Store, verbs: str, table: str) -> Sequence[str]:
    if table == "*":
        return ("*",)
    if not store.cluster or table.endswith("_judge"):
        return (identifier(table),)
    local = identifier(store.local(table))
    return (identifier(table), local) if "SELECT" in verbs else (local,)


def of_part(store: Store, part: str, who: User | None = None) -> tuple[str, ...]:
    """All that makes a part's role, its settings, a quota that only counts, and `who`; can be run again."""
    on = f" ON CLUSTER {identifier(store.cluster)}" if store.cluster else ""
    name, settings = identifier(part_role(store, part)), PARTS[part].settings
    found = [f"CREATE SETTINGS PROFILE IF NOT EXISTS {name}{on}"]
    if settings:
        bounds = ", ".join(f"{setting} = {bound}" for setting, bound in settings.items())
        found.append(f"ALTER SETTINGS PROFILE {name}{on} SETTINGS {bounds}")
    found += [f"CREATE ROLE IF NOT EXISTS {name}{on}", f"ALTER ROLE {name}{on} SETTINGS PROFILE {name}"]
    found += [f"GRANT{on} {right.removeprefix('GRANT ')} TO {name}" for right in part_rights(store, part)]
    found.append(
        f"CREATE QUOTA IF NOT EXISTS {name}{on} KEYED BY user_name FOR INTERVAL 1 hour TRACKING ONLY TO {name}"
    )
    return tuple(found if who is None else [*found, *_user(name, on, who)])


def told(part: str) -> str:
    """A part's rights in words, for the documentation."""
    wants = PARTS[part]
    of = {_ALL: "all of the database", _LOADS: "`trace_…_loads`", ("ingest_batches",): "`ingest_batches`"}
    topics = "tables of topics, their `…_judge`"
    found = [f"{verbs} on {of.get(tuple(tables), topics)}" for verbs, tables in wants.rights.items()]
    on_cluster = [*wants.everywhere, *(["CLUSTER"] if wants.on_cluster else [])]
    return "; ".join([*found, *([f"on a cluster {', '.join(on_cluster)}"] if on_cluster else [])])
