"""Kafka clients, made in one place from the settings.

librdkafka's own options in `kafka.options` are passed through and win, so SASL and TLS need no names of ours.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from warpmeter import log
from warpmeter.settings import Kafka

T = TypeVar("T")
Value = str | int | float | bool
Options = dict[str, Value]

COMMON: Final[Mapping[str, Value]] = {"client.id": "warpmeter", "log.connection.close": False}

# Idempotent, and never given up: what entered the producer's queue stays there until the broker has it.
# murmur2_random is the Java clients' partitioner, so that one host lands on one partition whoever produces.
PRODUCER: Final[Mapping[str, Value]] = {
    "enable.idempotence": True,
    "compression.type": "zstd",
    "partitioner": "murmur2_random",
    "message.timeout.ms": 0,
    "linger.ms": 50,
    "message.max.bytes": 16 << 20,
}

CONSUMER: Final[Mapping[str, Value]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "fetch.message.max.bytes": 16 << 20,
}


def options(kafka: Kafka, *layers: Mapping[str, Value]) -> Options:
    """One client's configuration: common, then `layers`, then the user's own options."""
    merged: Options = {"bootstrap.servers": kafka.bootstrap_servers, **COMMON}
    for layer in layers:
        merged |= layer
    return merged | dict(kafka.options)


def producer(
    kafka: Kafka,
    extra: Mapping[str, Value] | None = None,
    on_error: Callable[[KafkaError], None] | None = None,
    logger: logging.Logger | None = None,
) -> Producer:
    """An idempotent producer; raises KafkaException for options that librdkafka refuses.

    `on_error` is called from `poll()` with what is not about a single message: brokers away, a fatal state. `logger` is
    as `consumer` has it.
    """
    own = ({"error_cb": on_error} if on_error else {}) | ({"logger": logger} if logger else {})
    return Producer(options(kafka, PRODUCER, extra or {}) | own)


def consumer(
    kafka: Kafka, group: str, extra: Mapping[str, Value] | None = None, logger: logging.Logger | None = None
) -> Consumer:
    """A consumer of `group` that commits nothing by itself; raises KafkaException for refused options.

    `logger` gets librdkafka's own lines, from within polls; without one they go to stderr as they are.
    """
    own = {} if logger is None else {"logger": logger}
    return Consumer(options(kafka, CONSUMER, {"group.id": group}, extra or {}) | own)


class Admin(AdminClient):
    """An admin client, which says what goes wrong by raising and logs nothing; KafkaException for refused options."""

    def __init__(self, kafka: Kafka) -> None:
        self._complaints: list[KafkaError] = []
        super().__init__(options(kafka, {"log_level": 0}), error_cb=self._complaints.append)

    def complaint(self) -> str:
        """What librdkafka said last of a broker; '' for nothing. A call itself only says that it was late."""
        self.poll(0)
        return complaint(self._complaints)


def complaint(told: Sequence[KafkaError]) -> str:
    """The last of them that says more than that no broker is there; '' for none."""
    return next((each.str() for each in reversed(told) if each.code() != KafkaError._ALL_BROKERS_DOWN), "")


def admin(kafka: Kafka) -> Admin:
    """An admin client; KafkaException for refused options."""
    return Admin(kafka)


@contextmanager
def asking(kafka: Kafka) -> Iterator[Admin]:
    """An admin client; a KafkaException from within bears what librdkafka complained of meanwhile, for `said`."""
    client = Admin(kafka)
    try:
        yield client
    except KafkaException as error:
        if told := client.complaint():
            error.add_note(told)
        raise


class _Lines(logging.Handler):
    """Lines of librdkafka as lines of a part's own log."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self._log = log.get(part)

    def emit(self, record: logging.LogRecord) -> None:
        say = {logging.DEBUG: self._log.debug, logging.INFO: self._log.info}.get(record.levelno, self._log.warning)
        say("kafka client", what=record.getMessage())


def logger(part: str) -> logging.Logger:
    """Where a client of a part may put librdkafka's lines: the part's log, in its format."""
    found = logging.Logger(f"librdkafka of {part}")
    found.addHandler(_Lines(part))
    return found


AWAY: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
_FORMING: Final = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_MOVING: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
PATIENCE_S: Final = 10.0


FORBIDDEN: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def secured(kafka: Kafka) -> bool:
    """The broker wants a login, or TLS."""
    return kafka.options.get("security.protocol", "plaintext").lower() != "plaintext"


def login(kafka: Kafka) -> str:
    """Who we are to the broker, as far as our options tell: never more than a name."""
    options = kafka.options
    if name := options.get("sasl.username"):
        return f"User:{name}"
    if name := options.get("sasl.oauthbearer.client.id"):
        return f"the OAuth client {name}"
    certificate = options.get("ssl.certificate.location") or options.get("ssl.keystore.location")
    return f"the owner of the certificate {certificate}" if certificate else "User:ANONYMOUS"


def forbidden(kafka: Kafka, right: str) -> str:
    """That the broker withholds `right`, e.g. `Write on topic warpmeter.gpu-samples`, from us, and what to do."""
    return withheld(kafka.bootstrap_servers, login(kafka), right)


def withheld(servers: str, who: str, right: str) -> str:
    """The same, where server and login are known otherwise."""
    return (
        f"Kafka at {servers} refuses {who} the right {right}; `warpmeter acls` lists what "
        "each component needs, and grants it with --principal and --create"
    )


def refusal(error: KafkaError, kafka: Kafka, right: str) -> str:
    """What an error about a topic or group says to a person: `right`, where it is that which lacks."""
    return forbidden(kafka, right) if error.code() in FORBIDDEN else str(error.str())


def said(error: KafkaException, kafka: Kafka, complaint: str = "", right: str = "") -> str:
    """What a broker's error says to a person, with what to do.

    `complaint` is what the client said meanwhile (see `asking`), `right` that which was made use of.
    """
    code, complaint = error.args[0].code(), complaint or next(iter(getattr(error, "__notes__", ())), "")
    if code in FORBIDDEN:
        kind = next(name for name, value in vars(KafkaError).items() if value == code and name.endswith("_FAILED"))
        return forbidden(kafka, right or f"that it needs ({kind.removesuffix('_AUTHORIZATION_FAILED').lower()})")
    if code not in AWAY:
        return f"Kafka at {kafka.bootstrap_servers}: {error.args[0].str()}"
    told = f": {complaint}" if complaint else ""
    return f"cannot reach Kafka at {kafka.bootstrap_servers}{told}; {_advice(complaint, kafka)}"


def turned_away(error: KafkaException) -> bool:
    """Whether the broker is there, as `asking` heard, and login or certificates were not taken, by it or by us."""
    return _of_login(next(iter(getattr(error, "__notes__", ())), ""))


def _of_login(complaint: str) -> bool:
    return any(each in complaint.lower() for each in ("authentication", "certificate", "ssl"))


def _advice(complaint: str, kafka: Kafka) -> str:
    """What to do about a broker that is not reached, by what the client said of it."""
    if _of_login(complaint):
        return "see login, certificates and security.protocol in kafka.options"
    asked = "is it up, and is kafka.bootstrap_servers (WARPMETER_KAFKA__BOOTSTRAP_SERVERS) right?"
    # Of a broker that wants TLS, and cuts off who comes without, librdkafka says nothing but in its log.
    return asked if complaint or secured(kafka) else f"{asked} Does it want TLS: security.protocol in kafka.options?"


def is_forming(error: KafkaException) -> bool:
    """The group has no coordinator yet."""
    return error.args[0].code() in _FORMING


def patiently(ask: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """`ask` of a group or a partition, again while its coordinator or leader is being found, as on a fresh cluster.

    Raises KafkaException.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            settling = is_forming(error) or error.args[0].code() in _MOVING
            if not settling or time.monotonic() >= until:
                raise
            time.sleep(0.2)
