"""Which rights components need, and whether a broker's rules give them, decided without a broker."""

import subprocess
from pathlib import Path

import pytest

from warpmeter import acls, tail
from warpmeter.acls import Right, Rule
from warpmeter.authorizer import AclsError
from warpmeter.captures import reading
from warpmeter.cli import acling
from warpmeter.consumers.replay import load
from warpmeter.producers.kineto import commands
from warpmeter.settings import Ingest, Kafka, Settings
from warpmeter.simulate.run import PUBLISHED

NEEDS = acls.needs(Settings())
SCRIPT = Path(__file__).parents[2] / "deploy" / "kafka" / "acls.sh"
WRITE = Right("topic", "warpmeter.gpu-samples", "Write")
GIVEN = Rule("topic", "warpmeter.gpu-samples", "literal", "User:a", "Write")


def test_an_agent_reads_no_samples_and_writes_no_commands_alerts_or_dead_letters() -> None:
    agent = {str(right) for right in NEEDS["agent"]}
    assert {right for right in agent if right.startswith("Read")} == {"Read on topic warpmeter.capture-commands"}
    assert "Write on topic warpmeter.gpu-samples" in agent
    written = {right.name for right in NEEDS["agent"] if right.operation == "Write"}
    assert not written & {
        f"warpmeter.{name}" for name in ("capture-commands", "capture-requests", "alerts", "dead-letters")
    }


def test_prefix_and_groups_are_those_of_the_settings() -> None:
    found = acls.needs(Settings(kafka=Kafka(topic_prefix="prod"), ingest=Ingest(group="g", topics=("gpu-samples",))))
    assert found["ingest"] == (
        Right("group", "g", "Read"),
        Right("topic", "prod.dead-letters", "Write"),
        Right("topic", "prod.gpu-samples", "Read"),
        Right("topic", "prod.source-health", "Write"),
    )


def test_the_groups_that_nothing_joins_are_those_of_the_readers() -> None:
    names = {tail.GROUP, reading.GROUP, load.GROUP, commands.GROUP}
    assert set(acls.READING_GROUPS.values()) == names
    assert PUBLISHED == acls.SIMULATED


def test_fleets_of_two_prefixes_share_no_topic_and_no_group() -> None:
    one, other = (
        {(right.kind, right.name) for rights in acls.needs(Settings(kafka=Kafka(topic_prefix=prefix))).values()
         for right in rights}
        for prefix in ("warpmeter", "teamB")
    )  # fmt: skip
    assert not one & other
    assert {name for kind, name in other if kind == "group"} == {
        "teamB-agent", "teamB-capture-events", "teamB-ingest", "teamB-replay", "teamB-scheduler", "teamB-tail",
    }  # fmt: skip


def test_the_table_has_a_line_a_right_that_a_log_can_hold(capsys: pytest.CaptureFixture[str]) -> None:
    acling.show(Settings(), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 100
    assert any(line.split("│")[1:4] == [" agent     ", " topic ", " Write           "] for line in lines[3:-1])
    assert sum("│ agent     │ topic │ Write" in line for line in lines) == len(acls.AGENT_WRITES)


def test_the_script_for_administrators_grants_what_each_component_needs(update: bool) -> None:
    kafka = Kafka("kafka-1:9093", options={"security.protocol": "SASL_SSL"})
    lines = [
        "#!/bin/sh",
        "# As a user who may alter the cluster, with its login in client.properties (docs/deploy/kafka.md);",
    ]
    lines += ["# `warpmeter acls --print` prints the same for your prefix, groups and principals.", "set -e"]
    for component, rights in NEEDS.items():
        lines += ["", f"# {component}", *acls.shell(kafka, f"User:{component}", rights)]
    if update:
        SCRIPT.write_text("\n".join(lines) + "\n")
        SCRIPT.chmod(0o755)
    assert SCRIPT.read_text().splitlines() == lines
    assert subprocess.run(["/bin/sh", "-n", str(SCRIPT)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("rules", "gives"),
    [
        ((), False),
        ((GIVEN,), True),
        ((Rule("topic", "warpmeter.", "prefixed", "User:a", "All"),), True),
        ((Rule("topic", "*", "literal", "User:*", "Write"),), True),
        ((Rule("topic", "warpmeter.gpu-samples", "literal", "User:b", "Write"),), False),
        ((Rule("group", "warpmeter.gpu-samples", "literal", "User:a", "Write"),), False),
        ((Rule("topic", "warpmeter.gpu-samples", "literal", "User:a", "Write", host="10.0.0.1"),), False),
        ((GIVEN, Rule("topic", "warpmeter.", "prefixed", "User:a", "Write", allows=False)), False),
        ((GIVEN, Rule("topic", "warpmeter.", "prefixed", "User:a", "Write", allows=False, host="10.0.0.1")), False),
    ],
)
def test_what_rules_give(rules: tuple[Rule, ...], gives: bool) -> None:
    assert (acls.lacking([WRITE], "User:a", rules) == []) is gives


def test_who_may_write_may_describe_and_a_denial_of_writing_forbids_no_more_than_that() -> None:
    describe = Right("topic", "warpmeter.gpu-samples", "Describe")
    assert acls.lacking([describe], "User:a", [GIVEN]) == []
    denied = Rule("topic", "*", "literal", "User:a", "Write", allows=False)
    also = Rule("topic", "*", "literal", "User:a", "Describe")
    assert acls.lacking([describe, WRITE], "User:a", [also, GIVEN, denied]) == [WRITE]


def test_a_denial_is_told_with_its_rule_and_of_one_name_denies_all_that_begin_so() -> None:
    denied = Rule("topic", "warpmeter.gpu-samples", "literal", "User:*", "Write", allows=False, host="10.0.0.1")
    assert acls.denial(WRITE, "User:a", [GIVEN, denied]) == denied
    assert acls.denial(WRITE, "User:a", [GIVEN]) is None
    assert str(denied) == "User:* may not Write on topic warpmeter.gpu-samples from 10.0.0.1"
    create = Right("topic", "warpmeter.", "Create", prefixed=True)
    one = Rule("topic", "warpmeter.alerts", "literal", "User:a", "Create", allows=False)
    given = Rule("topic", "warpmeter.", "prefixed", "User:a", "Create")
    assert acls.lacking([create], "User:a", [given]) == []
    assert acls.lacking([create], "User:a", [given, one]) == [create]


def test_everybody_is_no_principal_and_a_type_that_no_login_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for who, why in (("User:*", "that is everybody"), ("User:", "COMPONENT=TYPE:NAME"), ("ann", "COMPONENT=TYPE:NAME")):
        with pytest.raises(AclsError, match=why):
            acling.principals([f"agent={who}"], Settings())
    assert acling.principals(["agent=User:a", "web=Group:b"], Settings()) == {"agent": "User:a", "web": "Group:b"}
    said = capsys.readouterr().err
    assert "of type Group none is" in said
    assert "User:a" not in said


def test_what_is_granted_beyond_the_need_is_told() -> None:
    more = Rule("topic", "warpmeter.", "prefixed", "User:a", "All")
    assert acls.beyond([WRITE], "User:a", [GIVEN, more, Rule("topic", "x", "literal", "User:b", "All")]) == [more]
    assert str(more) == "User:a may All on topic warpmeter.*"


def test_kafkas_own_tool_is_called_once_for_each_kind_and_operation() -> None:
    secured = Kafka("k:9093", options={"security.protocol": "SASL_SSL"})
    assert acls.shell(secured, "User:a b", [WRITE, Right("topic", "warpmeter.", "Create", prefixed=True)]) == [
        "kafka-acls.sh --bootstrap-server k:9093 --command-config client.properties --add --allow-principal 'User:a b' "
        "--operation Write --topic warpmeter.gpu-samples",
        "kafka-acls.sh --bootstrap-server k:9093 --command-config client.properties --add --allow-principal 'User:a b' "
        "--operation Create --resource-pattern-type prefixed --topic warpmeter.",
    ]
