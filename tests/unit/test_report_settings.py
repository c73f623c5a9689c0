"""Settings of reports: what cannot be meant is refused with what to do, and no secret is shown."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from warpmeter import config
from warpmeter.scheduler.publishing.due import Wanted
from warpmeter.scheduler.publishing.making import as_message
from warpmeter.scheduler.reports import Period, Rendered
from warpmeter.settings import ReportSchedule, Settings

MAIL = """
[[reports.targets]]
name = "team"
kind = "mail"
host = "smtp.example.com"
sender = "warpmeter <w@example.com>"
to = ["a@example.com"]
"""
HOOK = (
    '[[reports.targets]]\nname = "hook"\nkind = "webhook"\nurl = "https://u:geheim1@hooks.example/geheim2?k=geheim3"\n'
)
WEEKLY = '[[reports.schedules]]\nname = "monday"\nreport = "fleet-weekly"\ncron = "0 7 * * mon"\ntargets = ["team"]\n'


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> Settings:
    path = Path("given.toml")
    path.write_text(text)
    return config.load(path)


def test_no_secret_is_shown() -> None:
    secrets = 'token = "geheim4"\nsecret = "geheim5"\nheaders = { X-Key = "geheim6" }\n'
    password = 'username = "u"\npassword = "geheim7"\n'
    folder = '[[reports.targets]]\nname = "kept"\nkind = "folder"\nurl = "s3://b"\noptions = { secret = "geheim8" }\n'
    settings = load(MAIL + password + HOOK + secrets + folder)
    shown = json.dumps(config.shown(settings), default=str)
    assert "geheim" not in shown
    assert "hooks.example" in shown
    assert "geheim" not in repr(settings.reports.targets)
    assert settings.reports.targets[1].headers == {"X-Key": "geheim6"}


def test_all_of_it_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [{"name": "chat", "kind": "slack", "url": "https://hooks.slack.com/services/x"}]
    monkeypatch.setenv("WARPMETER_REPORTS__TARGETS", json.dumps(told))
    (target,) = load("").reports.targets
    assert (target.name, target.kind) == ("chat", "slack")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WEEKLY, "there is no target 'team'; [[reports.targets]] has none yet"),
        (MAIL + WEEKLY.replace("cron", "crom"), "did you mean reports.schedules.0.cron?"),
        (MAIL + WEEKLY + WEEKLY, "a name of its own"),
        (MAIL + WEEKLY.replace('cron = "0 7 * * mon"', ""), "cron is needed"),
        (MAIL + WEEKLY.replace("fleet-weekly", "job"), "leave cron out"),
        (MAIL + WEEKLY.replace("0 7 *", "0 25 *"), "reports.schedules 'monday': cron is not understood"),
        (MAIL + WEEKLY.replace("0 7 * * mon", "0 0 31 2 *"), "cron names no day that there is"),
        (
            MAIL + WEEKLY.replace('["team"]', "[]"),
            "targets is empty: name one or more of [[reports.targets]], which has team",
        ),
        (
            MAIL + WEEKLY.replace('["team"]', "[]").replace(" 7 ", " 25 "),
            "is not understood: Error validating expression '25'",
        ),
        (MAIL + WEEKLY.replace('["team"]', "[]").replace(" 7 ", " 25 "), "which has team; cron is not understood"),
        (MAIL + WEEKLY + 'timezone = "Mars"\n', "there is no time zone 'Mars'"),
        (MAIL + WEEKLY + "min_gpu_hours = 3\n", "of report job alone"),
        (MAIL.replace("a@example.com", "nobody"), "to 'nobody' is no address"),
        (MAIL + 'username = "u"\n', "username and password (or password_file) go together"),
        (MAIL + 'username = "u"\npassword = "p"\ntls = "none"\n', "in clear text"),
        (MAIL + 'url = "https://x"\n', "url means nothing to kind mail"),
        (HOOK.replace("https", "ftp"), "url must be http:// or https://"),
        (HOOK + 'url_file = "/x"\n', "give url, or url_file: one of them"),
        (HOOK + 'headers = { "X Y" = "z" }\n', "no HTTP header"),
        (HOOK + "timeout_s = 0\n", "reports.targets.0.timeout_s = 0 must be more than 0 s"),
        ('[[reports.targets]]\nname = "kept"\nkind = "folder"\nurl = "here"\n', "an absolute folder"),
        ('[reports]\nurl = "here"\n', "must be an absolute folder"),
        ('[reports]\npage = "here"\n', "reports.page"),
        ("[reports]\nprice_per_kwh = -1\n", "not below 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, why: str) -> None:
    with pytest.raises(config.ConfigError) as refused:
        load(text)
    assert why in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_links_lead_to_the_page_or_else_to_the_one_of_this_machine() -> None:
    assert load("").page == "http://127.0.0.1:8080"
    settings = load('[reports]\npage = "https://warpmeter.example/"\n')
    assert settings.page == "https://warpmeter.example"
    start = datetime(2026, 11, 23, tzinfo=UTC)
    wanted = Wanted("monday/2026-W48", ReportSchedule("monday", "fleet-weekly"), start, start + timedelta(weeks=1))
    made = Rendered(
        "fleet-weekly", Period(wanted.start, wanted.end), "", "s", "t", "s", (), (), (), "", "", (), "", {}
    )  # fmt: skip
    assert as_message(made, wanted, load("").page).link == "http://127.0.0.1:8080/reports?id=monday%2F2026-W48"


def test_an_empty_report_is_sent_without_its_tables() -> None:
    start = datetime(2026, 11, 23, tzinfo=UTC)
    wanted = Wanted("monday/2026-W48", ReportSchedule("monday", "fleet-weekly"), start, start + timedelta(weeks=1))
    files = {"report.html": b"x", "tables/users.csv": b"name\n"}
    made = Rendered(
        "fleet-weekly", Period(wanted.start, wanted.end), "", "s", "t", "s", (), (), (), "", "", (), "", files
    )  # fmt: skip
    assert [file.name for file in as_message(made, wanted, "").files] == list(files)
    assert [file.name for file in as_message(replace(made, empty=True), wanted, "").files] == ["report.html"]
