"""A migration that is killed inside its last numbered step: `python -m tests.real.killed_migration FD`."""

import os
import signal
import sys
from typing import Any

from warpmeter import launch, migrate, store


def main() -> None:
    """Migrate until a view's query is to be changed."""
    settings, _ = launch.received(sys.argv[1:])
    client = store.connect(settings.store, database="default")
    command = client.command

    def until_killed(statement: str, *arguments: Any, **named: Any) -> Any:
        if "MODIFY QUERY" in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return command(statement, *arguments, **named)

    client.command = until_killed  # type: ignore[method-assign, assignment]
    migrate.apply(client, settings.store)


if __name__ == "__main__":
    main()
