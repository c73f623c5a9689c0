"""One message to one receiver: the body that its kind takes, and the way it goes."""

from collections.abc import Mapping, Sequence
from typing import Final

from warpmeter.alerts.receiving import target
from warpmeter.scheduler.alerts import notices as written
from warpmeter.scheduler.alerts.notices import Notice
from warpmeter.sending import Message, Outcome, Refused, send
from warpmeter.sending.secrets import SecretError
from warpmeter.sending.webhook import post_json
from warpmeter.settings import Receiver

REPEAT_S: Final[Mapping[str, float]] = {"alertmanager": 60.0}
SELDOM_S: Final = 4 * 3600.0
AT_ONCE: Final[Mapping[str, int]] = {"webhook": 100, "alertmanager": 100}
"""Alerts of a message to a program; one to people has all there are, and spells out the first."""
MOST_AT_ONCE: Final = 10_000


def repeat_s(receiver: Receiver) -> float:
    """After how long it is told again of what goes on."""
    return receiver.repeat_s or REPEAT_S.get(receiver.kind, SELDOM_S)


def at_once(receiver: Receiver) -> int:
    """Alerts of a message, at most."""
    return AT_ONCE.get(receiver.kind, MOST_AT_ONCE)


def deliver(receiver: Receiver, notices: Sequence[Notice], now: float) -> Outcome:
    """Tell it once, within about `receiver.timeout_s`. Never raises for what it does."""
    try:
        to = target(receiver)
    except SecretError as error:
        return Refused(str(error))
    key = written.key(notices)
    match receiver.kind:
        case "webhook":
            return post_json(to, key, written.webhook(notices, receiver.name, now))
        case "alertmanager":
            return post_json(to, key, written.alertmanager(notices, now, repeat_s(receiver)))
        case "slack":
            return post_json(to, key, written.slack(notices))
        case "mail":
            message = Message(key, written.heading(notices), written.text(notices), written.html(notices))
            return send(to, message)
