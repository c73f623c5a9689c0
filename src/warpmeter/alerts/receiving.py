"""Receivers of alerts as they are set: whether one can be meant, and the target that it is."""

import base64
import math
from dataclasses import fields, replace
from typing import Any, Final

from warpmeter.alerts.words import MATCHERS, unmatchable
from warpmeter.sending.checking import objection as target_problem
from warpmeter.sending.secrets import read
from warpmeter.settings import Receiver, Target, Way

ALERTMANAGER: Final = "/api/v2/alerts"
SHARED: Final = ("name", *(each.name for each in fields(Way)))
"""What a receiver has of a target."""
OWN: Final = ("username", "password", "password_file")
"""What Alertmanager takes and other webhooks do not."""


def objection(receiver: Receiver) -> str:
    """Why a receiver cannot be used, '' when it can."""
    if not (math.isfinite(receiver.repeat_s) and receiver.repeat_s >= 0):
        return "repeat_s must be a number of seconds, 0 or more"
    if not (math.isfinite(receiver.timeout_s) and receiver.timeout_s > 0):
        return "timeout_s must be a number of seconds above 0"
    for route in receiver.routes:
        if not 0 < len(route) <= MATCHERS:
            return f"a route has from 1 to {MATCHERS} matchers, as {{ severity = 'critical' }}"
        for name, wanted in route.items():
            if why := unmatchable(name, wanted):
                return f"routes: {why}"
    if receiver.kind != "alertmanager":
        return target_problem(Target(kind=receiver.kind, **_same(receiver)))
    if bool(receiver.username) != bool(receiver.password or receiver.password_file):
        return "username and password (or password_file) go together"
    plain = Target("", "webhook")
    return target_problem(
        replace(Target(kind="webhook", **_same(receiver)), **{name: getattr(plain, name) for name in OWN})
    )


def target(receiver: Receiver) -> Target:
    """The target that it is; Alertmanager is a webhook to be given its own JSON. Raises SecretError."""
    if receiver.kind != "alertmanager":
        return Target(kind=receiver.kind, **_same(receiver))
    url = read(receiver.url, receiver.url_file, "url_file").rstrip("/")
    url = url if url.endswith(ALERTMANAGER) else url + ALERTMANAGER
    headers = dict(receiver.headers)
    if receiver.username:
        password = read(receiver.password, receiver.password_file, "password_file")
        headers["Authorization"] = f"Basic {base64.b64encode(f'{receiver.username}:{password}'.encode()).decode()}"
    return replace(Target(kind="webhook", **_same(receiver)), url=url, url_file=None, headers=headers)


def _same(receiver: Receiver) -> dict[str, Any]:
    return {name: getattr(receiver, name) for name in SHARED}
