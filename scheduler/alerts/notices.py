"""What receivers are told of alerts: a notice, and how each kind of receiver wants it written. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, Final
from urllib.parse import quote

from warpmeter.alerts import SEVERITIES, Alert
from warpmeter.quantity import quantity

VERSION: Final = 1
"""Of the generic webhook's document: a field may be added without another, never renamed or taken away."""
LISTED: Final = 10
"""Alerts that a message to people spells out; of the rest it says how many there are."""
COLOURS: Final = {"critical": "#c4232f", "warning": "#d29922", "info": "#0a66c2"}
RESOLVED: Final = "#1a7f37"
ENDS_AFTER_S: Final = 300.0
"""Alertmanager takes an alert for resolved when it was not told of it again for so long, at least."""
UNNAMED: Final = re.compile(r"^(?=[0-9])|[^A-Za-z0-9_]")
"""What no name of a label of Alertmanager's has: it refuses the whole message."""
FOUND: Final = 3
"""Findings of a capture that a message to people spells out."""


@dataclass(frozen=True)
class Notice:
    """One alert as one receiver is to hear of it: `state` is firing or resolved; `number` counts how often it was told
    that it fires, from 1. `url` is the page that shows it.
    """

    alert: Alert
    state: str
    number: int = 1
    url: str = ""

    @property
    def key(self) -> str:
        """The same whenever the same is told again, after a failure or a restart: receivers tell repetitions by it."""
        return f"{self.alert.alert_id}/{self.state}/{self.number}"


def page(address: str, alert_id: str) -> str:
    """Where the page shows an alert."""
    return f"{address.rstrip('/')}/alerts?alert={quote(alert_id, safe='')}" if address else ""


def key(notices: Iterable[Notice]) -> str:
    """The idempotency key of a message: of all that it tells, in whatever order."""
    return hashlib.sha256("\n".join(sorted(notice.key for notice in notices)).encode()).hexdigest()


def rfc3339(seconds: float) -> str:
    """A time as Alertmanager and webhooks take it: 2026-01-31T12:00:00.000Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(notice: Notice) -> dict[str, Any]:
    """An alert as the generic webhook has it; what is not known is null."""
    alert = notice.alert
    times = {name: _time(alert, name) for name in ("started_at", "fired_at", "resolved_at")}
    if notice.state != "resolved":
        times["resolved_at"] = None
    return {
        "key": notice.key, "alert_id": alert.alert_id, "fingerprint": alert.fingerprint, "rule": alert.rule,
        "severity": alert.severity, "state": notice.state, "labels": dict(sorted(alert.labels.items())),
        "summary": alert.summary, "description": alert.description,
        "value": alert.value, "unit": alert.unit, **times,
        "flapping": alert.flapping, "capture_id": alert.capture_id, "findings": list(alert.findings), "url": notice.url,
    }  # fmt: skip


def _time(alert: Alert, name: str) -> str | None:
    found = getattr(alert, name)
    return None if found is None else rfc3339(found)


def webhook(notices: Sequence[Notice], receiver: str, now: float) -> dict[str, Any]:
    """The generic webhook's body."""
    return {
        "version": VERSION, "receiver": receiver, "key": key(notices), "sent_at": rfc3339(now),
        "alerts": [document(notice) for notice in notices],
    }  # fmt: skip


def alertmanager(notices: Sequence[Notice], now: float, again_s: float) -> list[dict[str, Any]]:
    """The body of Alertmanager's `POST /api/v2/alerts`.

    What fires ends four of our repetitions later unless it is told again, and 5 minutes later at least, as Prometheus
    does it (rules/manager.go, `ResendDelay`).
    """
    ends = now + max(4 * again_s, ENDS_AFTER_S)
    return [_of_alertmanager(notice, ends) for notice in notices]


def _of_alertmanager(notice: Notice, ends: float) -> dict[str, Any]:
    alert = notice.alert
    own = {UNNAMED.sub("_", name): value for name, value in alert.labels.items()}
    labels = {**own, "alertname": alert.rule, "severity": alert.severity}
    annotations = {"summary": alert.summary, "description": alert.description, "value": told_value(alert)}
    annotations |= {"capture": alert.capture_id, "findings": "\n".join(alert.findings)}
    resolved = notice.state == "resolved"
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": rfc3339(alert.fired_at or alert.started_at),
        "endsAt": rfc3339((alert.resolved_at or alert.ts) if resolved else ends),
        "generatorURL": notice.url,
    }  # fmt: skip


def told_value(alert: Alert) -> str:
    """What the rule measured, with its unit; '' where that is nothing."""
    return measured(alert.value, alert.unit)


def measured(value: float | None, unit: str) -> str:
    """A value as people read it, to four digits; '' where there is none."""
    return "" if value is None else quantity(float(f"{value:.4g}"), unit)


def heading(notices: Sequence[Notice]) -> str:
    """What a message is about, in a line: of one alert its summary, of several how many."""
    if len(notices) == 1:
        (notice,) = notices
        return f"[{_word(notice)}] {notice.alert.summary or notice.alert.rule}"
    firing = [notice for notice in notices if notice.state == "firing"]
    parts = [f"{len(firing)} alerts"] if firing else []
    if resolved := len(notices) - len(firing):
        parts.append(f"{resolved} resolved")
    rules = sorted({notice.alert.rule for notice in notices})
    return f"[{', '.join(parts)}] {', '.join(rules[:3])}{' …' if len(rules) > 3 else ''}"


def _word(notice: Notice) -> str:
    return "resolved" if notice.state == "resolved" else notice.alert.severity


def ordered(notices: Iterable[Notice]) -> list[Notice]:
    """What fires first, the gravest first."""
    return sorted(notices, key=lambda each: (each.state != "firing", -SEVERITIES.index(each.alert.severity), each.key))


def slack(notices: Sequence[Notice]) -> dict[str, Any]:
    """The body of Slack's incoming webhook: a line, and an attachment for each of the first alerts."""
    shown = ordered(notices)
    attachments = [_attachment(notice) for notice in shown[:LISTED]]
    if len(shown) > LISTED:
        attachments.append({"text": f"and {len(shown) - LISTED} more"})
    return {"text": _of_slack(heading(shown)), "attachments": attachments}


def _attachment(notice: Notice) -> dict[str, Any]:
    alert = notice.alert
    said = [alert.description, *(f"• {finding}" for finding in alert.findings[:FOUND])]
    about = {**dict(sorted(alert.labels.items())), "value": told_value(alert), "capture": alert.capture_id}
    return {
        "color": RESOLVED if notice.state == "resolved" else COLOURS.get(alert.severity, COLOURS["info"]),
        "fallback": _of_slack(heading([notice])), "title": _of_slack(heading([notice])), "title_link": notice.url,
        "text": _of_slack("\n".join(filter(None, said))),
        "fields": [
            {"title": _of_slack(name), "value": _of_slack(value), "short": len(value) < 40}
            for name, value in about.items() if value
        ],
        "footer": f"warpmeter · {alert.rule}", "ts": int(alert.resolved_at or alert.fired_at or alert.started_at),
    }  # fmt: skip


def _of_slack(text: str) -> str:
    """Names are no markup: https://docs.slack.dev/messaging/formatting-message-text#escaping."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(notices: Sequence[Notice]) -> str:
    """For people, as plain text."""
    shown = ordered(notices)
    parts = [_paragraph(notice) for notice in shown[:LISTED]]
    if len(shown) > LISTED:
        parts.append(f"and {len(shown) - LISTED} more")
    return "\n\n".join(parts) + "\n"


def _paragraph(notice: Notice) -> str:
    return "\n".join([heading([notice]), *(f"  {name}: {value}" for name, value in _facts(notice))])


def html(notices: Sequence[Notice]) -> str:
    """The same for mail clients that show HTML: no script, no picture, nothing from elsewhere."""
    shown = ordered(notices)
    parts = [_section(notice) for notice in shown[:LISTED]]
    if len(shown) > LISTED:
        parts.append(f"<p>and {len(shown) - LISTED} more</p>")
    return f'<html><body style="font: 14px sans-serif">{"".join(parts)}</body></html>'


def _section(notice: Notice) -> str:
    colour = RESOLVED if notice.state == "resolved" else COLOURS.get(notice.alert.severity, COLOURS["info"])
    rows = "".join(
        f'<tr><td style="color: #59616f; padding-right: 12px; vertical-align: top">{escape(name)}</td>'
        f"<td>{_linked(value)}</td></tr>"
        for name, value in _facts(notice)
    )
    title = f'<h3 style="margin: 0 0 4px">{escape(heading([notice]))}</h3>'
    style = f"border-left: 4px solid {colour}; padding-left: 10px; margin: 0 0 16px"
    return f'<div style="{style}">{title}<table>{rows}</table></div>'


def _linked(value: str) -> str:
    if value.startswith(("http://", "https://")):
        return f'<a href="{escape(value)}">{escape(value)}</a>'
    return escape(value).replace("\n", "<br>")


def _facts(notice: Notice) -> list[tuple[str, str]]:
    alert = notice.alert
    facts: Mapping[str, str] = {
        "what to do": alert.description, "value": told_value(alert), **dict(sorted(alert.labels.items())),
        "since": rfc3339(alert.fired_at or alert.started_at),
        "resolved": rfc3339(alert.resolved_at) if notice.state == "resolved" and alert.resolved_at else "",
        "capture": alert.capture_id, "findings": "\n".join(alert.findings[:FOUND]), "look": notice.url,
    }  # fmt: skip
    return [(name, value) for name, value in facts.items() if value]


def encoded(body: Any) -> bytes:
    """JSON as it is sent."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
