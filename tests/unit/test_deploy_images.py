"""The Dockerfiles: what they copy is there, and what they install and run is warpmeter's."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.brokers.maven import KAFKA_VERSION
from tests.deployed import DEPLOY, ROOT, parsed
from warpmeter import __version__
from warpmeter.settings import Metrics, Web

IMAGES: Final = ("agent", "server")
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(image: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, the rest) in order, continued lines as one."""
    text = (DEPLOY / "docker" / f"{image}.Dockerfile").read_text()
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps it out; the last line that fits decides, as Docker says."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        rule = line.removeprefix("!")
        if rule and not line.startswith("#") and (fnmatch(path, rule) or path.startswith(f"{rule}/")):
            out = not line.startswith("!")
    return out


def copied(image: str) -> list[str]:
    """What it takes from the checkout."""
    lines = [rest for word, rest in instructions(image) if word == "COPY" and not rest.startswith("--from")]
    return [source for line in lines for source in line.split()[:-1]]


@pytest.mark.parametrize("image", IMAGES)
def test_all_that_the_wheel_is_made_of_is_copied_and_nothing_that_is_not_there(image: str) -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "src", *wheel["force-include"]}
    assert needed <= set(copied(image))
    for source in copied(image):
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_secrets_data_and_history_stay_out_of_the_context() -> None:
    for path in (".git", "tests", "warpmeter.toml", "deploy/compose/secrets", ".venv", "warpmeter-data", "notes.txt"):
        assert ignored(path), path
    assert ignored("src/warpmeter/.env") or "**/.env" in (ROOT / ".dockerignore").read_text()


@pytest.mark.parametrize("image", IMAGES)
def test_it_installs_extras_that_are_there_by_the_constraints(image: str) -> None:
    found = dict(rest.split("=", 1) for word, rest in instructions(image) if word == "ARG" and "=" in rest)
    assert set(found["EXTRAS"].split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    assert found["VERSION"] == __version__
    installs = [rest for word, rest in instructions(image) if word == "RUN" and " install " in rest and "pip" in rest]
    assert len(installs) == 1
    assert "--constraint /constraints.txt" in installs[0]
    assert "[${EXTRAS}]" in installs[0]


@pytest.mark.parametrize("image", IMAGES)
def test_nobody_in_particular_runs_a_command_of_warpmeter(image: str) -> None:
    last = dict(instructions(image))
    assert last["USER"] == "65532:65532"
    assert yaml.safe_load(last["ENTRYPOINT"]) == ["warpmeter"]
    assert "warpmeter" in PROJECT["project"]["scripts"]
    words = yaml.safe_load(last["CMD"])
    assert words == ["--help"] or parsed(words) == "agent"
    names = [rest for word, rest in instructions(image) if word in ("ARG", "ENV")]
    assert not [name for name in names if re.search(r"(?i)password|secret|token|key=", name)]
    assert {"title", "licenses", "version", "revision"} <= set(re.findall(r"image\.(\w+)=", last["LABEL"]))


def test_ports_are_those_of_the_settings() -> None:
    metrics, web = Metrics(), Web()
    agent, server = dict(instructions("agent")), dict(instructions("server"))
    assert agent["EXPOSE"].split() == [str(metrics.agent_port)]
    ports = (web.port, metrics.ingest_port, metrics.scheduler_port, metrics.web_port)
    assert server["EXPOSE"].split() == [str(port) for port in ports]
    assert set(re.findall(r":(\d+)/metrics", server["HEALTHCHECK"])) == {str(port) for port in ports[1:]}
    assert re.findall(r":(\d+)/metrics", agent["HEALTHCHECK"]) == [str(metrics.agent_port)]


def test_both_images_make_the_wheel_alike() -> None:
    def first(image: str) -> list[tuple[str, str]]:
        lines = instructions(image)
        start = next(place for place, (word, _) in enumerate(lines) if word == "FROM")
        return lines[start : [place for place, (word, _) in enumerate(lines) if word == "FROM"][2]]

    assert first("agent") == first("server")


def test_the_compose_file_runs_the_kafka_that_is_tested() -> None:
    assert f"apache/kafka:{KAFKA_VERSION}" in (DEPLOY / "compose" / "compose.yaml").read_text()


def test_the_example_of_variables_has_each_with_the_value_that_holds_without() -> None:
    folder: Path = DEPLOY / "compose"
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (folder / "compose.yaml").read_text()))
    lines = (folder / ".env.example").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines if line and not line.startswith("#")) == used
