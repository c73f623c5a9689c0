"""The process of API and pages: `python -m warpmeter.web FD`, started by `warpmeter web` and `warpmeter up`.

Exit codes: 0 after a stop that was asked for, 78 when somebody must act; anything else may be started again.
"""

import os
import sys
import threading
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import bus, launch, log, selfmetrics
from warpmeter.settings import Settings
from warpmeter.web.security.identity import TokenError
from warpmeter.web.serving import serve

EXIT_MUST_ACT: Final = 78
LOGIN_S: Final = 10.0


def run(settings: Settings) -> int:
    """Serve until a signal; the exit code."""
    logger = log.setup(settings.log, "web")
    selfmetrics.serve(settings.metrics, "web")
    threading.Thread(target=_try_login, args=(settings,), name="login", daemon=True).start()
    try:
        serve(settings)
    except (OSError, TokenError) as error:
        logger.error("cannot start", why=str(error))
        return EXIT_MUST_ACT
    logger.info("stopped")
    return 0


def _try_login(settings: Settings) -> None:
    """Go to Kafka once: of a wrong password nothing would be said until somebody asks for something."""
    try:
        with bus.asking(settings.kafka) as admin:
            admin.list_topics(timeout=LOGIN_S)
    except KafkaException as error:
        if bus.turned_away(error):
            log.get("web").error("Kafka lets nobody in by this login", why=bus.said(error, settings.kafka))


def main() -> int:
    settings, _ = launch.received(sys.argv[1:])
    code = run(settings)
    sys.stderr.flush()
    os._exit(code)  # a question to a store that is away must not hold up the end


if __name__ == "__main__":
    sys.exit(main())
