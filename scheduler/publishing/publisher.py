"""The publisher on the real broker, store and targets."""

from functools import partial
from typing import TYPE_CHECKING

from warpmeter.settings import Settings

if TYPE_CHECKING:
    from warpmeter.scheduler.publishing.service import Publisher


def publishers(settings: Settings) -> "tuple[Publisher, ...]":
    """Of the settings' schedules; none without any. Raises KafkaException for options refused, ScheduleError."""
    if not settings.reports.schedules:
        return ()
    from warpmeter.reports.archive import Archive
    from warpmeter.scheduler.publishing import asking, making
    from warpmeter.scheduler.publishing.service import Ports, Publisher
    from warpmeter.scheduler.publishing.topic import ReportTopic
    from warpmeter.sending import send

    store, archive = settings.store, Archive(settings.reports)
    ports = Ports(
        topic=ReportTopic(settings.kafka, partial(asking.remembered, store)), make=partial(making.in_child, settings),
        kept=archive.load, prune=archive.prune, send=send, jobs=partial(asking.ended, store),
        landed=partial(asking.landed, store),
    )  # fmt: skip
    return (Publisher(settings.reports, ports),)
