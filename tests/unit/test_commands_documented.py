"""Every command in README and docs is one that there is, with options that it has; what they hold besides can be used.

`tests/real/test_commands_documented.py` runs them; here they are parsed by the command itself.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import pytest
from typer.main import get_command

from tests.documentation import PAGES, ROOT, Block, Command, blocks, commands
from warpmeter import config
from warpmeter.cli.app import app

OTHERS: Final = {
    *("apt-get", "cat", "cd", "cp", "curl", "dbt", "docker", "dpkg", "echo", "go", "grep", "helm", "install", "jq"),
    *("journalctl", "kafka-server-start.sh", "kafka-storage.sh", "kcat", "kubectl", "mkdir", "mvn", "openssl", "pip"),
    *("promtool", "protoc", "python3", "rpm"),
    *("scontrol", "setcap", "sinfo", "srun", "superset", "sysctl", "systemctl", "systemd-sysusers", "vi", "watch"),
    *("systemd-tmpfiles", "zip"),
}
"""Programs of others: some cannot be run here, and those that can are by the tests of their pages."""
SCRIPTS: Final = {".ci/run"}
ALL: Final = tuple(commands())
OURS: Final = tuple(each for each in ALL if each.program == "warpmeter")
INLINE: Final = re.compile(r"(?<!`)`warpmeter ([^`\n]+)`(?!`)")
TARGETS: Final = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ROOT_COMMAND: Final = cast(Any, get_command(app))


def parsed(words: Sequence[str]) -> None:
    """Take apart what follows `warpmeter`; raises what the command itself would say of it."""
    rest = [word for word in words if word not in ("…", "...")]
    with ROOT_COMMAND.make_context("warpmeter", rest) as context:
        command, left = ROOT_COMMAND, [*context._protected_args, *context.args]
        while hasattr(command, "commands") and left:
            _, command, left = command.resolve_command(context, left)
            assert command is not None
            context = command.make_context(command.name, left, parent=context)
            left = [*getattr(context, "_protected_args", ()), *context.args] if hasattr(command, "commands") else []


@pytest.mark.parametrize("command", OURS, ids=lambda each: f"{each.page}: {' '.join(each.words[1:])[:60]}")
def test_a_command_is_one_that_there_is(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parsed(command.words[1:])


@pytest.mark.parametrize(
    "words",
    [("sqll", "x"), ("sql", "--databse", "x"), ("alerts", "lst"), ("capture", "1", "2", "3"), ("sql", "--format")],
)
def test_one_that_there_is_not_is_found(words: Sequence[str]) -> None:
    with pytest.raises(Exception, match=r"No such|unexpected extra|requires an argument"):
        parsed(words)


def test_programs_of_others_are_known_by_name() -> None:
    strange = {each.program for each in ALL} - OTHERS - {"warpmeter", "make"}
    scripts = {path.name for path in ROOT.glob("deploy/**/*") if path.is_file()} | {Path(each).name for each in SCRIPTS}
    assert strange <= scripts, "a program that nobody runs here is named in OTHERS, on purpose"


def test_every_make_target_is_one() -> None:
    named = {word for each in ALL if each.program == "make" for word in each.words[1:] if "=" not in word}
    named |= {word for page in PAGES for word in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_have_the_options_that_are_named(page: Path) -> None:
    for said in INLINE.findall(page.read_text()):
        command = ROOT_COMMAND
        for word in said.split():
            if word in getattr(command, "commands", {}):
                command = command.commands[word]
            elif word == "--" or command.name in ("run", "simulate"):
                break
            elif word.startswith("--") and len(word) > 2:
                known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
                assert word.partition("=")[0].rstrip("…,") in known | {"--version", "--config"}, said
        assert command is not ROOT_COMMAND or said.split()[0].startswith(("-", "COMMAND", "<")), said


@pytest.mark.parametrize(
    "block", [each for each in blocks() if each.language == "toml"], ids=lambda each: f"{each.name}: {each.text[:30]}"
)
def test_settings_can_be_used(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("given.toml").write_text(block.text.replace("…", 16 * "x"))  # what is to be filled in
    config.load(Path("given.toml"))


def test_the_pages_of_the_site_are_all_of_them() -> None:
    assert shutil.which("make"), "without it nothing here is run"
    text = (ROOT / "mkdocs.yml").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f": {page.name}" not in text]
    assert missing == [], "mkdocs.yml has a navigation"
