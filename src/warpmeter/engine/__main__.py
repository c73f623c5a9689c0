"""`python -m warpmeter.engine FD`: the embedded engine as a process; `warpmeter engine` and `warpmeter up` start it.

Exit codes: 0 after a clean stop, 75 when the disk is full (the same start succeeds once there is room), else 1.
"""

import sys
from typing import Final

from warpmeter import launch, log, selfmetrics
from warpmeter.engine.lock import NoRoomError, StartError
from warpmeter.engine.server import EngineOptions, serve

EXIT_LATER: Final = 75  # EX_TEMPFAIL of sysexits.h


def main() -> int:
    """Serve; returns the exit status."""
    settings, _ = launch.received(sys.argv[1:])
    logger = log.setup(settings.log, "engine")
    engine = settings.engine
    options = EngineOptions(
        engine.data, engine.listen, engine.port, engine.write_token, settings.store.database, engine.threads
    )
    try:
        selfmetrics.serve(settings.metrics, "engine")
        serve(options)
    except (StartError, OSError) as error:
        logger.error("cannot start", why=str(error))
        return EXIT_LATER if isinstance(error, NoRoomError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
