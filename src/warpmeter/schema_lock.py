"""That a migration is at work, or stands half done, as others see it: tables beside those that it changes.

`migrate` makes a table `schema_lock_…` and takes it away, and looks for consumers after it is made; ingest looks for it
after it has joined the group and before it inserts. So whoever comes second sees the other. Before its first numbered
step it makes `schema_half_done`, and takes that away, before the lock, when all steps are done and recorded: of one
that was killed, or met an error, it stays.
"""

from datetime import timedelta
from typing import Final

PREFIX: Final = "schema_lock_"
LOCK_FOR: Final = timedelta(minutes=10)
"""A lock that is older is a dead process's."""

HALF_DONE: Final = "schema_half_done"

AT_WORK: Final = (
    f"SELECT comment, name = '{HALF_DONE}' AS half_done FROM system.tables WHERE database = currentDatabase() "
    f"AND (startsWith(name, '{PREFIX}') AND metadata_modification_time > now() - {LOCK_FOR.seconds} "
    f"OR name = '{HALF_DONE}') ORDER BY half_done LIMIT 1"
)
"""Who migrates the database that is asked (host and pid), or 1 and who left a migration half done; else no row."""


def half_done(by: str) -> str:
    """What to say of a migration that stands half done, and what to do."""
    return f"the tables are half migrated ({by} began it and did not end it): run `warpmeter migrate`"
