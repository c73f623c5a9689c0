"""What deploy/ says of warpmeter, held against warpmeter: settings are loaded, commands parsed as they would be run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from unittest import mock

import typer
from typer.core import TyperGroup as Group

from warpmeter import config
from warpmeter.cli.app import app
from warpmeter.settings import Settings

ROOT: Final = Path(__file__).parents[1]
DEPLOY: Final = ROOT / "deploy"


def loaded(environment: Mapping[str, str], places: Mapping[str, Path], folder: Path) -> Settings:
    """The settings of a part that has nothing but `environment`; raises ConfigError as it would.

    `places`: folders of the container, and what stands for each here. `folder`: where to stand, for no other file.
    """
    ours = {name: _moved(value, places) for name, value in environment.items() if name.startswith(config.PREFIX)}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ, ours, clear=True):
            return config.load()
    finally:
        os.chdir(before)


def _moved(value: str, places: Mapping[str, Path]) -> str:
    for place, here in places.items():
        value = value.replace(place, str(here))
    return value


def parsed(words: Sequence[str]) -> str:
    """The command that `warpmeter WORDS` is; raises click's UsageError for one that is none, or for its options."""
    group = typer.main.get_command(app)
    assert isinstance(group, Group)
    with group.make_context("warpmeter", list(words)) as context:
        name, command, rest = group.resolve_command(context, list(words))
        assert command is not None
        command.make_context(name, rest, parent=context).close()
    return str(name)
