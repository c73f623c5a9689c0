"""docs/security.md: every test that is named exists, every claim names one; and the claims that nothing else holds."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.test_delivery import existing
from warpmeter.config import MASK, ConfigError, load, masked_url

PAGE: Final = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
CHOICES: Final = {"What is worth protecting"}
"""Sections whose points are no claims."""


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"\btest_\w+", PAGE))
    assert len(named) > 60
    assert named - existing() == set()


def test_every_claim_names_a_test() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        points = re.findall(r"^- (.*?)(?=^- |^\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if heading not in CHOICES:
            assert [point for point in points if "[test_" not in point] == [], heading


@pytest.mark.parametrize(
    "url",
    ["http://ann:geheim@h:1/d", "http://ann:ge/heim@h:1", "http://ann:ge@heim@h:1", "https://h/?password=geheim&x=1",
     "https://h/?api_key=geheim"],
)  # fmt: skip
def test_a_password_is_masked_however_it_is_written(url: str) -> None:
    assert MASK in masked_url(url)
    assert "heim" not in masked_url(url)


@pytest.mark.parametrize("url", ["http://h:8123/x", "chdb:///a/b", "https://h:8443/?database=x"])
def test_an_address_without_one_stays_as_it_is(url: str) -> None:
    assert masked_url(url) == url


@pytest.mark.parametrize("dsn", ["http://ann:ge/heim@h:1", "http://ann:ge#heim@h:1", "http://h:port"])
def test_an_address_that_would_be_taken_apart_wrongly_is_refused_unseen(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"%2F") as error:
        load(overrides={"store": {"dsn": dsn}})
    assert "heim" not in str(error.value)
