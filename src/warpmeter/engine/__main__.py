"""`python -m warpmeter.engine FD`: the embedded engine as a process; `warpmeter engine` and `warpmeter up` start it.

Exit codes: 0 after a clean stop, 75 when the same start succeeds again (once there is room, on a full disk; at once,
after an insert that failed halfway: `tokens`), else 1.
"""

import sys

from warpmeter import launch, log, selfmetrics
from warpmeter.engine.lock import NoRoomError, StartError
from warpmeter.engine.server import EngineOptions, serve
from warpmeter.tokens import EXIT_AGAIN


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
        return EXIT_AGAIN if isinstance(error, NoRoomError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
