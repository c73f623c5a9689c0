"""Receivers of alerts: what the settings refuse, what docs/alerts.md says, and when what failed is tried again."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from warpmeter import config
from warpmeter.config import ConfigError
from warpmeter.scheduler.alerts.receivers import FIRST_WAIT_S, LONGEST_WAIT_S, waits_s
from warpmeter.settings import Receiver

PAGE = (Path(__file__).parents[2] / "docs/alerts.md").read_text()
TOLD = PAGE[PAGE.index("## Receivers") :]


def loaded(folder: Path, text: str) -> tuple[Receiver, ...]:
    file = folder / "warpmeter.toml"
    file.write_text(text)
    return config.load(file, {}).alerts.receivers


def test_every_setting_is_told_of_and_no_other() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", TOLD, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(field.name for field in fields(Receiver))


def test_the_settings_that_it_shows_load(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TOLD, re.DOTALL)
    assert [each.kind for each in loaded(tmp_path, example)] == ["slack", "mail", "alertmanager", "webhook"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('kind = "webhook"', "url is needed"),
        ('kind = "webhook"\nurl = "https://x.example"\nto = ["a@b.c"]', "to means nothing to kind webhook"),
        ('kind = "slack"\nurl = "https://x.example"\nroutes = [{}]', "a route has from 1"),
        ('kind = "slack"\nurl = "https://x.example"\nroutes = [{ host = "~(" }]', "host: '(' is no expression"),
        ('kind = "slack"\nurl = "https://x.example"\nrepeat_s = -1', "repeat_s"),
        ('kind = "alertmanager"\nurl = "https://x.example"\nusername = "u"', "username and password"),
        ('kind = "mail"\nhost = "h"\nsender = "w@x.example"', "to is needed"),
        ('kind = "slack"\nurl = "https://x.example"\nroutes = [{ rule = "gpu-hott" }]', "did you mean gpu-hot?"),
        ('kind = "pager"', "kind"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, wrong: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        loaded(tmp_path, f'[[alerts.receivers]]\nname = "a"\n{wrong}\n')


def test_each_has_a_name_of_its_own_and_keeps_its_secrets(tmp_path: Path) -> None:
    one = '[[alerts.receivers]]\nname = "a"\nkind = "slack"\nurl = "https://x.example/s3cret"\n'
    with pytest.raises(ConfigError, match="a name of its own"):
        loaded(tmp_path, one + one)
    loaded(tmp_path, one)
    assert "s3cret" not in repr(config.shown(config.load(tmp_path / "warpmeter.toml", {})))


def test_what_failed_is_tried_later_and_later_and_not_all_at_once() -> None:
    assert [waits_s(failures, 0.0, 1.0) for failures in (1, 2, 3, 50)] == [
        FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S, LONGEST_WAIT_S
    ]  # fmt: skip
    assert waits_s(3, 0.0, 0.0) == 2 * FIRST_WAIT_S
    assert waits_s(1, 30.0, 0.5) == 30.0, "a receiver may ask for more"
