"""`warpmeter alerts`: which are open, what became of one, and what people say of them, over store and bus."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from warpmeter import queries, store
from warpmeter.alerts import Alert, Rule, RuleError, fingerprint
from warpmeter.alerts.configured import rules as in_force
from warpmeter.alerts.configured import stray
from warpmeter.alerts.words import Word, objection, say, silence
from warpmeter.captures import amounts
from warpmeter.captures.asking import Asker, NotTakenError
from warpmeter.cli import common
from warpmeter.cli.capturing import me
from warpmeter.scheduler.alerts.notices import Notice, measured, page
from warpmeter.scheduler.alerts.outgoing import deliver
from warpmeter.schemas.topics import TOPICS
from warpmeter.sending import Refused, Sent, TryAgain
from warpmeter.settings import Receiver, Scheduler, Settings
from warpmeter.terminal import printable
from warpmeter.up.folder import Folder

if TYPE_CHECKING:
    from warpmeter.scheduler.alerts.told import Memory

STORE_S: Final = 10
LIST: Final = ("alert", "severity", "state", "since", "what", "about", "value", "by")
HISTORY: Final = ("at", "what", "by", "value", "said")
COLOURS: Final = {"critical": "red", "warning": "yellow", "info": "blue"}
STATES: Final = {"firing": "red", "pending": "yellow", "resolved": "green"}
TOPIC: Final = TOPICS["alert-words"]


class AlertError(Exception):
    """What was asked of an alert cannot be done; the message says why and what to do."""

    exit_status = 1


class WordError(AlertError):
    """A word that cannot be said as it was given."""

    exit_status = 2


def rows(settings: Settings, name: str, **given: object) -> list[dict[str, Any]]:
    """Rows of a named query. Raises QueryError, ClickHouseError."""
    asked = queries.get(name).statement({key: str(value) for key, value in given.items()})
    with store.connect(settings.store, patience_s=STORE_S) as client:
        found = client.query(asked.sql, parameters=dict(asked.values), tz_mode="aware")
    return [dict(zip(found.column_names, row, strict=True)) for row in found.result_rows]


def show_list(found: Sequence[Mapping[str, Any]], limit: int, as_json: bool) -> None:
    """Alerts, a line each; how many there are where that is more than are shown."""
    shown = found[:limit]
    if as_json:
        common.print_json(shown)
        return
    common.print_table("", LIST, [_line(each) for each in shown])
    if len(found) > limit:
        common.err.print(f"the first {limit}: --limit shows more", highlight=False)


def _line(alert: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        alert["alert_id"], Text(alert["severity"], COLOURS.get(alert["severity"], "")), _state(alert),
        common.said(alert["fired_at"] or alert["started_at"]), alert["summary"], _labels(alert["labels"]),
        _value(alert), _handled(alert),
    )  # fmt: skip


def _state(alert: Mapping[str, Any]) -> Text:
    return Text(alert["state"] + (" (flapping)" if alert["flapping"] else ""), STATES.get(alert["state"], ""))


def _labels(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _value(alert: Mapping[str, Any]) -> str:
    return measured(alert["value"], alert["unit"])


def _handled(alert: Mapping[str, Any]) -> str:
    said = [alert["acknowledged_by"], f"silence {alert['silenced_by']}" if alert["silenced_by"] else ""]
    return ", ".join(filter(None, said))


def one(settings: Settings, alert_id: str) -> dict[str, Any]:
    """One alert. Raises AlertError where there is none, and as `rows`."""
    asked = {"alert_id": alert_id, "since": "2020-01-01", "limit": 1}
    found = rows(settings, "alerts_listed", **asked) or rows(settings, "alerts_listed", state="dropped", **asked)
    if not found:
        raise AlertError(
            f"there is no alert {alert_id!r}; `warpmeter alerts list` shows them (--state all: also old ones)"
        )
    return found[0]


def show(settings: Settings, alert_id: str, as_json: bool) -> None:
    """One alert with its history. Raises as `one`."""
    alert = one(settings, alert_id)
    history = rows(settings, "alert_history", alert_id=alert_id)
    if as_json:
        common.print_json({"alert": alert, "history": history})
        return
    facts = {
        "severity": alert["severity"], "state": alert["state"] + (", flapping" if alert["flapping"] else ""),
        "value": _value(alert), **alert["labels"], "began": common.said(alert["started_at"]),
        "fired": common.said(alert["fired_at"]), "resolved": common.said(alert["resolved_at"]),
        "taken care of by": alert["acknowledged_by"], "silenced by": alert["silenced_by"],
        "capture": alert["capture_id"], "rule": alert["rule"],
    }  # fmt: skip
    common.out.print(common.cell(alert["summary"]), style="bold")
    common.out.print(common.cell(alert["description"]))
    common.print_table("", ("", ""), [(name, value) for name, value in facts.items() if value])
    for finding in alert["findings"]:
        common.out.print(common.cell(f"- {finding}"))
    common.print_table("what became of it", HISTORY, [_happened(each, alert) for each in history])


def _happened(each: Mapping[str, Any], alert: Mapping[str, Any]) -> tuple[Any, ...]:
    what = Text(each["what"], STATES.get(each["what"], ""))
    return common.said(each["at"]), what, each["by"], _value({**each, "unit": alert["unit"]}), each["comment"]


def show_rules(settings: Settings, as_json: bool) -> None:
    """The rules in force. Raises RuleError."""
    known = in_force(settings.alerts)
    if as_json:
        common.print_json(known)
        return
    common.print_table("", ("rule", "severity", "fires after", "what", "thresholds"), [_rule(each) for each in known])


def _rule(rule: Rule) -> tuple[Any, ...]:
    values = " ".join(f"{name}={value}" for name, value in rule.values().items())
    return rule.name, Text(rule.severity, COLOURS[rule.severity]), f"{rule.for_s:g} s", rule.meaning, values


def show_silences(settings: Settings, as_json: bool) -> None:
    """Silences that hold or will. Raises as `rows`."""
    found = [row for row in rows(settings, "silences_listed") if row["state"] != "ended"]
    if as_json:
        common.print_json(found)
        return
    told = [
        (each["silence_id"], _labels(each["matchers"]), common.said(each["starts_at"]), common.said(each["ends_at"]),
         each["said_by"], each["comment"])
        for each in found
    ]  # fmt: skip
    common.print_table("", ("silence", "of", "from", "until", "by", "why"), told)


def show_receivers(settings: Settings, as_json: bool) -> None:
    """Who is told, as the settings have it, and how each took it last, where the scheduler's memory can be read from
    here; secrets are not shown."""
    memory = _memory(settings)
    found: list[dict[str, Any]] = [
        {"name": each.name, "kind": each.kind, "routes": list(map(dict, each.routes)),
         "send_resolved": each.send_resolved, "to": _whither(each), **_standing(memory, each.name)}
        for each in settings.alerts.receivers
    ]  # fmt: skip
    if as_json:
        common.print_json(found)
        return
    told = [
        (each["name"], each["kind"], each["to"], _routes(each["routes"]), each["owed"], _stands(each)) for each in found
    ]
    common.print_table("", ("receiver", "kind", "to", "alerts", "owed", "how it stands"), told)
    if not found:
        common.err.print("docs/alerts.md shows how to set one", highlight=False)


def _memory(settings: Settings) -> "Memory | None":
    """What the scheduler keeps of receivers, where that can be read from here."""
    from warpmeter.scheduler.alerts.told import FILE, Memory  # SQLAlchemy: where no scheduler is, there need be none

    scheduler, data = settings.scheduler, settings.engine.data
    if scheduler.data == Scheduler().data and common.running(data) is not None:
        scheduler = replace(scheduler, data=Folder(data).scheduler)
    there = scheduler.jobs_url or (scheduler.data / FILE).is_file()
    return Memory(scheduler) if there else None


def _standing(memory: "Memory | None", name: str) -> dict[str, Any]:
    nothing = {"owed": None, "at": None, "failing_since": None, "why": ""}
    if memory is None:
        return nothing
    from sqlalchemy.exc import SQLAlchemyError

    try:
        owed, standing = sum(not each.number for each in memory.of(name).values()), memory.standing(name)
    except (SQLAlchemyError, OSError) as error:
        return {**nothing, "why": f"the scheduler's memory cannot be read: {str(error).splitlines()[0]}"}
    if standing is None:
        return {**nothing, "owed": owed}
    failing = common.said(standing.failing_since) if standing.failing_since else None
    return {"owed": owed, "at": common.said(standing.at), "failing_since": failing, "why": standing.why}


def _stands(each: Mapping[str, Any]) -> Text:
    if each["failing_since"]:
        return Text(f"fails since {each['failing_since']}: {printable(each['why'])}", "red")
    return Text(f"took it at {each['at']}", "green") if each["at"] else Text(printable(each["why"]))


def _whither(receiver: Receiver) -> str:
    from urllib.parse import urlsplit

    if receiver.kind == "mail":
        return ", ".join(receiver.to)
    return urlsplit(receiver.url).hostname or str(receiver.url_file)


def _routes(routes: Sequence[Mapping[str, str]]) -> str:
    return "; ".join(map(_labels, routes)) or "all"


def matchers(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` arguments as matchers. Raises WordError."""
    for pair in pairs:
        if "=" not in pair:
            raise WordError(f"{pair!r} is no matcher: write it as rule=gpu-hot, host=gpu-0001 or host=~gpu-00.*")
    return dict(pair.split("=", 1) for pair in pairs)


def new_silence(pairs: Sequence[str], length: str, starts: str | None, comment: str) -> Word:
    """The word that silences. Raises WordError."""
    try:
        length_s = amounts.milliseconds(length) / 1000
    except ValueError as error:
        raise WordError(f"--for: {error}") from error
    begins = None if starts is None else common.moment(starts)
    found = silence(matchers(pairs), (begins or time.time()) + length_s, me(), comment, begins)
    if why := objection(found):
        raise WordError(why)
    return found


def unheard(settings: Settings, word: Word) -> str:
    """Why a silence is of no alert, by the rules of these settings, '' where it may be: told and not refused, for the
    scheduler's settings may have rules that these have not."""
    with suppress(RuleError):  # of the settings, not of the silence
        if why := stray(settings.alerts, word.matchers):
            return f"{why}; the silence is made, and by the rules of these settings it is of no alert"
    return ""


def end_silence(settings: Settings, silence_id: str) -> Word:
    """The word that ends one. Raises AlertError where none holds that is called so, and as `rows`."""
    found = rows(settings, "silences_listed", silence_id=silence_id)
    if not found:
        raise AlertError(f"there is no silence {silence_id!r}; `warpmeter alerts silences` shows those that hold")
    return say("unsilence", silence_id, me())


def tell(settings: Settings, word: Word) -> None:
    """Onto the bus. Raises NotTakenError, KafkaException."""
    Asker(settings.kafka, "alerts").put(TOPIC, {word.subject: word})


def receiver(settings: Settings, name: str) -> Receiver:
    """The receiver that is called so. Raises AlertError."""
    found = [each for each in settings.alerts.receivers if each.name == name]
    if not found:
        there = (
            ", ".join(each.name for each in settings.alerts.receivers) or "none: docs/alerts.md shows how to set one"
        )
        raise WordError(f"there is no receiver {name!r}; [[alerts.receivers]] has {there}")
    return found[0]


def test(settings: Settings, name: str, as_json: bool) -> int:
    """Tell a receiver of an alert that is none, and that it is resolved; what came of it; the exit status."""
    to, now = receiver(settings, name), time.time()
    address = settings.page
    found = [_tried(to, state, now, address) for state in ("firing", "resolved")[: 1 + to.send_resolved]]
    if as_json:
        common.print_json({"receiver": name, "kind": to.kind, "told": found})
    else:
        for each in found:
            common.out.print(common.cell(f"{each['state']}: {each['outcome']} {each['why']}".rstrip()))
    return int(any(each["outcome"] != "sent" for each in found))


def _tried(to: Receiver, state: str, now: float, address: str) -> dict[str, str]:
    labels = {"receiver": to.name, "host": me().partition("@")[2]}
    print_of = fingerprint("test", labels)
    alert = Alert(
        f"test-{print_of}-{int(now)}", "test", "info", "firing" if state == "firing" else "resolved", print_of, labels,
        f"This is a test of the receiver {to.name}", now, now,
        "Nothing is wrong: `warpmeter alerts test` was called, to see that this arrives.",
        fired_at=now, resolved_at=None if state == "firing" else now,
    )  # fmt: skip
    match deliver(to, [Notice(alert, state, 1, page(address, alert.alert_id))], now):
        case Sent(note=note):
            return {"state": state, "outcome": "sent", "why": note}
        case TryAgain(why=why):
            return {"state": state, "outcome": "failed", "why": why}
        case Refused(why=why):
            return {"state": state, "outcome": "refused", "why": why}


def told_until(word: Word) -> str:
    """What a silence says of its end."""
    return f"silenced until {common.said(datetime.fromtimestamp(word.ends_at).astimezone())}: {word.subject}"


EXPECTED: Final = (AlertError, NotTakenError, queries.QueryError, store.ClickHouseError)
