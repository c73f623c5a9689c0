"""docs/web.md names every setting of the page with its default, and what it shows of settings loads."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from warpmeter import config
from warpmeter.settings import Web

PAGE: Final = (Path(__file__).parents[2] / "docs/web.md").read_text()
ROW: Final = re.compile(r"^\| `web\.(\w+)` \| (?:`([^`]*)`)? ?\|", re.MULTILINE)
EXAMPLES: Final = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_every_setting_is_named_with_its_default_and_no_other() -> None:
    told = dict(ROW.findall(PAGE))
    assert list(told) == [field.name for field in fields(Web)]
    for name, default in told.items():
        value = getattr(Web(), name)
        said = "" if value is None else "[]" if value == () else str(value).lower() if value is True else str(value)
        assert default == (said.removesuffix(".0") if isinstance(value, float) else said), name


@pytest.mark.parametrize("example", EXAMPLES, ids=["tokens", "proxy"])
def test_the_settings_that_it_shows_load(example: str, tmp_path: Path) -> None:
    file = tmp_path / "warpmeter.toml"
    file.write_text(example.replace('"…"', f'"{"x" * 32}"'))
    assert config.load(file, {}).web.guarded
