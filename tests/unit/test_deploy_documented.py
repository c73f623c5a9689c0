"""docs/deploy/containers.md and kubernetes.md: commands, build arguments and rights are those that there are."""

import re
import shlex
from typing import Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deployed import DEPLOY, ROOT, parsed

PAGES: Final = ("containers.md", "kubernetes.md")
COMPOSE: Final = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())


def page(name: str) -> str:
    """Its text."""
    return (ROOT / "docs" / "deploy" / name).read_text()


def commands(name: str) -> list[list[str]]:
    """Every line of its shell blocks, as words; continued lines as one."""
    blocks = re.findall(r"```sh\n(.*?)```", page(name), re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("name", PAGES)
def test_what_is_run_of_warpmeter_and_of_deploy_is_there(name: str) -> None:
    assert commands(name)
    for words in commands(name):
        for place, word in enumerate(words):
            if word == "warpmeter" and words[place - 1] in ("--", "ingest"):
                parsed(words[place + 1 :])
            if re.match(r"(\.\./)*deploy/[a-z/]", word) and not word.startswith("deploy/warpmeter"):
                assert (ROOT / word).exists(), word
    for ours in re.findall(r"`(topics --create|migrate)`", page(name)):
        parsed(ours.split())


def test_services_that_are_named_are_of_the_compose_file() -> None:
    services = set(COMPOSE["services"])
    verbs = ("exec", "stop", "--follow")
    named = {words[words.index(verb) + 1] for words in commands("containers.md") for verb in verbs if verb in words}
    assert {"ingest"} <= named <= services
    for service in services:
        assert f"`{service}`" in page("containers.md"), service


def test_an_agent_by_hand_has_what_the_compose_file_gives_it() -> None:
    (run,) = [words for words in commands("containers.md") if words[:2] == ["docker", "run"]]
    agent = COMPOSE["services"]["agent"]

    def given(option: str) -> list[str]:
        return [run[place + 1] for place, word in enumerate(run) if word == option]

    assert given("--cap-add") == agent["cap_add"]
    assert given("--user") == [agent["user"]]
    assert given("--tmpfs") == agent["tmpfs"]
    for each in given("--env"):
        key = each.split("=")[0]
        assert key in agent["environment"], key


def test_build_arguments_are_those_of_the_files() -> None:
    files = [(DEPLOY / "docker" / f"{name}.Dockerfile").read_text() for name in ("agent", "server")]
    there = set(re.findall(r"(?m)^ARG (\w+)", "".join(files)))
    table = page("containers.md").split("| build argument | |")[1].split("\n\n")[0]
    told = {name for row in re.findall(r"(?m)^\| (`[^|]+) \|", table) for name in re.findall(r"`(\w+)`", row)}
    assert told == there
    assert set(re.findall(r"--build-arg (\w+)=", page("containers.md") + page("kubernetes.md"))) <= there


def test_links_lead_somewhere() -> None:
    for name in PAGES:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page(name)):
            if "://" not in link:
                assert (ROOT / "docs" / "deploy" / link).exists(), link
