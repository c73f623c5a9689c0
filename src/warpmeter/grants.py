"""What an analyst may do in ClickHouse, as SQL: a role that reads, the limits of its queries, its quota, and a user.

    for statement in statements(store, Limits(), analyst("ada", password)):
        client.command(statement)

Every statement can be run again: what is there is altered to this, and a user keeps other roles that it has. Nothing
of it is for the embedded engine (`chdb://`, `warpmeter engine`), which knows no users: its endpoint lets everybody
read and nobody write who has no write token (docs/bi.md).
"""

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.migrate import identifier, literal
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


PARTS: Final[Mapping[str, str]] = {
    "migrate": "SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP, TRUNCATE",
    "ingest": "SELECT, INSERT",
    "scheduler": "SELECT, INSERT, ALTER DELETE",
    "web": "SELECT",
}
"""The least that each part asks of its database, for who gives each a user of its own."""


def of_part(store: Store, part: str) -> tuple[str, ...]:
    """The rights of a part as SQL, for a role of its name."""
    on = f" ON CLUSTER {identifier(store.cluster)}" if store.cluster else ""
    name = identifier(f"{store.database}_{part}")
    return (
        f"CREATE ROLE IF NOT EXISTS {name}{on}",
        f"GRANT{on} {PARTS[part]} ON {identifier(store.database)}.* TO {name}",
        f"GRANT{on} SELECT ON system.* TO {name}",
    )
