"""The scheduler's process: `python -m warpmeter.scheduler FD`, started by `warpmeter schedule` and `warpmeter up`.

Exit codes: 0 after a stop that was asked for, 78 when somebody must act; anything else may be started again.
"""

import os
import sys
from functools import partial
from threading import Thread
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import bus, launch, log, retention, selfmetrics
from warpmeter.captures.reading import Events, ReadingError
from warpmeter.registry import RegistryError
from warpmeter.scheduler.alerts.receivers import outlets
from warpmeter.scheduler.alerts.service import alarms
from warpmeter.scheduler.alerts.triggers import triggers
from warpmeter.scheduler.analyst import Analyst
from warpmeter.scheduler.publishing.publisher import publishers
from warpmeter.scheduler.reading import Requests
from warpmeter.scheduler.resolving import resolve
from warpmeter.scheduler.saying import Voice
from warpmeter.scheduler.service import Ports, ScheduleError, Service
from warpmeter.scheduler.timetable import Timetable, kept
from warpmeter.settings import Settings
from warpmeter.stopping import stopping

EXIT_MUST_ACT: Final = 78
EXIT_FAILED: Final = 1


def build(settings: Settings) -> Service:
    """The service on the real broker and store. Raises KafkaException for options that are refused, ScheduleError."""
    voice = Voice(settings.kafka)
    watching = alarms(settings, outlets, triggers)
    ports = Ports(
        Requests(settings.kafka, settings.scheduler),
        Events(settings.kafka),
        voice,
        partial(resolve, settings.store),
        Analyst(settings),
        Timetable(settings.scheduler, partial(kept, settings.store), voice.schedule),
        beside=(*(() if watching is None else (watching,)), *publishers(settings)),
    )
    return Service(ports, settings.scheduler)


def run(settings: Settings) -> int:
    """Until a signal; the exit code."""
    logger = log.get("scheduler")
    with stopping() as stop:
        try:
            service = build(settings)
        except KafkaException as error:
            logger.error("cannot start", why=bus.said(error, settings.kafka))
            return EXIT_MUST_ACT
        except ScheduleError as error:
            logger.error("cannot start", why=str(error))
            return EXIT_MUST_ACT
        logger.info("scheduling", group=settings.scheduler.group)
        if not retention.is_folder(settings.traces):  # a folder is kept by the agents that write it
            Thread(target=retention.run, args=(settings.traces, stop), name="retention", daemon=True).start()
        try:
            while not stop.is_set():
                service.step()
        except (ReadingError, RegistryError, KafkaException) as error:
            logger.error("cannot go on: to be started again", why=str(error))
            return EXIT_FAILED
        finally:
            service.close()
    logger.info("stopped")
    return 0


def main() -> int:
    settings, _ = launch.received(sys.argv[1:])
    log.setup(settings.log, "scheduler")
    selfmetrics.serve(settings.metrics, "scheduler")
    code = run(settings)
    sys.stderr.flush()
    os._exit(code)  # a question to a store that is away must not hold up the end


if __name__ == "__main__":
    sys.exit(main())
