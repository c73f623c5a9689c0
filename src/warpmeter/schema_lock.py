"""That a migration is at work, as others see it: a table `schema_lock_…` beside those that it changes.

`migrate` makes it and takes it away, and looks for consumers after it is made; ingest looks for it after it has joined
the group and before it inserts. So whoever comes second sees the other.
"""

from datetime import timedelta
from typing import Final

PREFIX: Final = "schema_lock_"
LOCK_FOR: Final = timedelta(minutes=10)
"""A lock that is older is a dead process's."""

AT_WORK: Final = (
    "SELECT comment FROM system.tables WHERE database = currentDatabase() "
    f"AND startsWith(name, '{PREFIX}') AND metadata_modification_time > now() - {LOCK_FOR.seconds} LIMIT 1"
)
"""Who migrates the database that is asked (host and pid); no row when nobody does."""
