"""All outputs of an agent: each takes every row, and none waits for another."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Thread
from typing import Final

from google.protobuf.message import Message

from warpmeter import log
from warpmeter.clock import Clock
from warpmeter.producers.out import Output, OutputError
from warpmeter.producers.out.lines import Lines
from warpmeter.producers.output import json_line
from warpmeter.settings import Settings

CLOSE_S: Final = 1.5
"""What closing may take beyond what an output was given to bring things out."""


class Several:
    """A fan-out; used from the threads of all sources."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = tuple(outputs)
        self._broken: set[str] = set()

    @property
    def gone(self) -> bool:
        """Whether nobody takes anything any more."""
        return all(output.gone for output in self.outputs)

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Give the rows of one tick to each."""
        for output in self.outputs:
            try:
                output.publish(topic, rows)
            except Exception as error:  # noqa: BLE001 - the edge of one output; the others and the source go on
                self._broke(output.name, error)

    def pump(self) -> bool:
        """Do what is due; True when one has more to do at once."""
        more = False
        for output in self.outputs:
            try:
                more |= output.pump()
            except Exception as error:  # noqa: BLE001 - as above
                self._broke(output.name, error)
        return more

    def close(self, timeout_s: float) -> None:
        """Close all at once, so that a slow one does not take the time of the others."""
        threads = [Thread(target=output.close, args=(timeout_s,), daemon=True) for output in self.outputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout_s + CLOSE_S)

    def _broke(self, name: str, error: Exception) -> None:
        if name not in self._broken:
            self._broken.add(name)
            log.get("agent").error("output_broke", output=name, error=repr(error), exc_info=error)


def stdout(settings: Settings, clock: Clock) -> Output:
    """JSON lines on standard output."""
    return Lines(partial(json_line, dynolog=settings.agent.names == "dynolog"), clock)


def _kafka(settings: Settings, clock: Clock) -> Output:
    from warpmeter.producers.shipper import Shipper, open_spool

    return Shipper(settings, open_spool(settings.agent, clock), clock)


def _prometheus(settings: Settings, clock: Clock) -> Output:
    from warpmeter.producers.out.served import Served

    return Served(settings, clock)


def _otlp(settings: Settings, clock: Clock) -> Output:
    try:
        from warpmeter.producers.out.exporter import Exporter
    except ModuleNotFoundError as error:
        raise OutputError(f"OTLP needs {error.name}: install warpmeter[agent]") from error
    return Exporter(settings.agent, clock)


MAKERS: Final[Mapping[str, Callable[[Settings, Clock], Output]]] = {
    "kafka": _kafka,
    "stdout": stdout,
    "prometheus": _prometheus,
    "otlp": _otlp,
}


def of_settings(settings: Settings, clock: Clock) -> Several:
    """The outputs of the settings; raises OutputError for one that this host cannot have, or SpoolTakenError."""
    return Several([MAKERS[name](settings, clock) for name in settings.agent.outputs])
