"""The process of API and pages: `python -m warpmeter.web FD`, started by `warpmeter web` and `warpmeter up`.

Exit codes: 0 after a stop that was asked for, 78 when somebody must act; anything else may be started again.
"""

import os
import sys
from typing import Final

from warpmeter import launch, log, selfmetrics
from warpmeter.settings import Settings
from warpmeter.web.security.identity import TokenError
from warpmeter.web.serving import serve

EXIT_MUST_ACT: Final = 78


def run(settings: Settings) -> int:
    """Serve until a signal; the exit code."""
    logger = log.setup(settings.log, "web")
    selfmetrics.serve(settings.metrics, "web")
    try:
        serve(settings)
    except (OSError, TokenError) as error:
        logger.error("cannot start", why=str(error))
        return EXIT_MUST_ACT
    logger.info("stopped")
    return 0


def main() -> int:
    settings, _ = launch.received(sys.argv[1:])
    code = run(settings)
    sys.stderr.flush()
    os._exit(code)  # a question to a store that is away must not hold up the end


if __name__ == "__main__":
    sys.exit(main())
