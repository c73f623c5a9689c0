"""`python -m warpmeter.engine FD`: the embedded engine as a process; `warpmeter engine` and `warpmeter up` start it."""

import sys

from warpmeter import launch, log, selfmetrics
from warpmeter.engine.lock import StartError
from warpmeter.engine.server import EngineOptions, serve


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
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
