"""docs/alerts.md has the rules that are shipped, as they are; `--update` writes their table."""

import re
from pathlib import Path
from typing import Final, cast

import pytest
from click import Group
from typer.main import get_command

from warpmeter import queries
from warpmeter.alerts import Rule, RuleError
from warpmeter.alerts.configured import rules
from warpmeter.alerts.rule import NAMED, builtin, parse
from warpmeter.cli.app import app
from warpmeter.config import ConfigError, load
from warpmeter.quantity import quantity
from warpmeter.settings import AlertRule, Alerts

PAGE: Final = Path(__file__).parents[2] / "docs" / "alerts.md"
BETWEEN: Final = re.compile(r"(<!-- rules: .* -->\n)(.*?)(<!-- end of rules -->)", re.DOTALL)
GOOD: Final = """-- What it is about.
-- severity: info
-- summary: {host} has {value}
-- do: Look.
-- @most 3  that is too much
SELECT host, 4 AS value FROM hosts WHERE value > {most:UInt8} AND {now:DateTime64(3, 'UTC')} > 0;
"""


def table() -> str:
    """The rules in Markdown."""
    lines = ["| rule | severity | it fires when | for | keep | each | parameters |", "|---|---|---|---|---|---|---|"]
    for rule in builtin().values():
        seconds = [f"{each:g}" if each else "" for each in (rule.for_s, rule.keep_s, rule.every_s)]
        told = "; ".join(f"`{p.name}` = {p.value}: {p.meaning}" for p in rule.parameters)
        lines.append(f"| `{rule.name}` | {rule.severity} | {rule.meaning} | {' | '.join(seconds)} | {told} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_rules(update: bool) -> None:
    text = PAGE.read_text()
    told = BETWEEN.search(text)
    assert told is not None
    if update:
        PAGE.write_text(BETWEEN.sub(lambda match: f"{match[1]}\n{table()}\n{match[3]}", text))
    assert told[2].strip() == table().strip() or update, "pytest --update writes the table"


@pytest.mark.parametrize("rule", builtin().values(), ids=lambda rule: rule.name)
def test_a_rule_is_told_of_in_words(rule: Rule) -> None:
    assert rule.description.endswith("."), "what to do is a sentence"
    assert rule.meaning.endswith(".")
    assert "|" not in rule.meaning, "it is in a table"
    assert not rule.sql or f"'{rule.name}'" not in rule.sql
    assert "now()" not in rule.sql
    assert "now64(" not in rule.sql, "rules ask for the time of the evaluation"
    assert "value" not in NAMED.findall(rule.summary) or quantity(1.5, rule.unit)


@pytest.mark.parametrize("rule", builtin().values(), ids=lambda rule: rule.name)
def test_commands_that_a_rule_names_are_there(rule: Rule) -> None:
    known = cast(Group, get_command(app)).commands
    for name, second in re.findall(r"`warpmeter ([a-z-]+)(?: ([a-z_-]+))?", rule.description):
        assert name in known
        below = getattr(known[name], "commands", None)
        assert below is None or second in below, f"{name} needs one of {sorted(below)}"
        assert name != "queries" or second in queries.names()


def test_a_file_becomes_a_rule() -> None:
    rule = parse("mine", GOOD)
    assert (rule.meaning, rule.severity, rule.for_s, rule.keep_s) == ("What it is about.", "info", 0.0, 0.0)
    assert [(p.name, p.type, p.value) for p in rule.parameters] == [("most", "UInt8", "3")]
    assert not rule.sql.endswith(";")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("-- severity: info", "-- severity: dire", "severity 'dire' is none"),
        ("-- do: Look.\n", "", "lacks do"),
        ("-- What it is about.\n", "", "must say what it is about"),
        ("-- @most 3  that is too much\n", "", r"just the parameters \['most'\]"),
        ("-- do:", "-- for: soon\n-- do:", "for is no number of seconds: 'soon'"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(RuleError, match=why):
        parse("mine", GOOD.replace(old, new))


# --- as the settings have them -----------------------------------------------------------------------------------

OWN: Final = AlertRule("mine", sql="SELECT host, 1 AS value FROM hosts;", summary="{host}")


def chosen(*given: AlertRule) -> dict[str, Rule]:
    """The rules in force."""
    return {rule.name: rule for rule in rules(Alerts(rules=given))}


def test_settings_change_a_rule_and_leave_the_rest_of_it() -> None:
    given = AlertRule(
        "gpu-hot", severity="critical", for_s=0, parameters={"celsius": 80}, labels={"team": "ops"}, summary="hot"
    )  # fmt: skip
    changed, shipped = chosen(given)["gpu-hot"], builtin()["gpu-hot"]
    assert (changed.severity, changed.for_s, changed.summary, changed.labels) == (
        "critical",
        0.0,
        "hot",
        {"team": "ops"},
    )
    assert (changed.values(), changed.keep_s, changed.sql) == ({"celsius": "80"}, shipped.keep_s, shipped.sql)


def test_settings_switch_a_rule_off_and_bring_rules_of_their_own() -> None:
    known = chosen(AlertRule("gpu-hot", enabled=False), OWN)
    assert known.keys() == (builtin().keys() | {"mine"}) - {"gpu-hot"}
    assert (known["mine"].severity, known["mine"].sql) == ("warning", "SELECT host, 1 AS value FROM hosts")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (AlertRule("gpu-hott"), "did you mean gpu-hot"),
        (AlertRule("Mine", sql=OWN.sql, summary="s"), "no name: lower-case"),
        (AlertRule("mine", sql="SELECT 1 AS value"), "needs sql and summary"),
        (AlertRule("mine", sql="DROP TABLE x", summary="s"), "must be one SELECT"),
        (AlertRule("mine", sql="SELECT 1 AS value; SELECT 2", summary="s"), "must be one SELECT"),
        (AlertRule("mine", sql="SELECT 'x AS value", summary="s"), "cannot be read from byte 7"),
        (AlertRule("mine", sql="SELECT {x:UInt8} AS value", summary="s"), "asks for x, and parameters does not"),
        (AlertRule("gpu-hot", parameters={"kelvin": 300}), "has no parameter kelvin; it has celsius = 87"),
        (AlertRule("gpu-hot", parameters={"celsius": "hot"}), "celsius = hot is no UInt8"),
        (AlertRule("gpu-hot", parameters={"celsius": -1}), "celsius = -1 is no UInt8"),
        (AlertRule("gpu-hot", for_s=-1), "for_s = -1 must lie between"),
        (AlertRule("gpu-hot", labels={"rule": "x"}), "'rule' is no label of one's own"),
        (AlertRule("store-away", sql="SELECT 1 AS value"), "takes no sql"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: AlertRule, why: str) -> None:
    with pytest.raises(RuleError, match=re.escape(why)):
        chosen(given)


def test_a_rule_stands_there_once() -> None:
    with pytest.raises(RuleError, match="twice"):
        chosen(OWN, OWN)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[alerts]\nevaluate_s = 0.5\n", "1 s or more"), ("[alerts]\nflaps = 1\n", "2 or more"),
        ("[alerts]\nrule_memory = 5\n", "below 1 MiB"), ("[alerts]\nrepeat_s = 0\n", "must be more than 0"),
        ("[[alerts.rules]]\nname = 'x'\n", "alerts.rules: x is no built-in rule"),
        ("[[alerts.rules]]\nname = 'gpu-hot'\nfor = 3\n", "did you mean alerts.rules.0.for_s"),
        ("[[alerts.triggers]]\nname = 'x'\nmatch = { rule = 'no-such' }\n", "'x': match: there is no rule"),
        ("[alerts]\nrules = { name = 'x' }\n", r"[[alerts.rules]] in double brackets"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(why)):
        load(tmp_path / "given.toml")


def test_the_page_on_monitoring_calls_rules_by_their_names() -> None:
    """By those of their files (`ingest_lag`) nobody can silence or set them."""
    page = (PAGE.parent / "deploy" / "monitoring.md").read_text()
    files = {name.replace("-", "_") for name in builtin() if "-" in name}
    assert not set(re.findall(r"`([a-z_]+)`", page)) & files
    assert {"ingest-lag", "host-silent"} <= set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", page)) & set(builtin())
