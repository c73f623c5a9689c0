"""What analysts may do, as SQL: who is refused, how it is for a cluster, what is said of a password; one statement."""

import hashlib
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpmeter import grants
from warpmeter.cli import asking, granting
from warpmeter.cli.app import app
from warpmeter.grants import GrantsError, Limits
from warpmeter.settings import Store

PASSWORD = "correct horse"


def test_a_user_has_the_role_alone_and_no_password_in_it() -> None:
    ada = grants.user("ada", PASSWORD, "salt")
    found = grants.statements(Store(), Limits(), ada)
    said = "\n".join(found)
    assert PASSWORD not in said
    assert hashlib.sha256(b"correct horsesalt").hexdigest() in said
    assert "GRANT `warpmeter_analyst` TO `ada`" in found
    assert {each.split()[0] for each in found} == {"CREATE", "ALTER", "GRANT", "REVOKE"}
    assert all("IF NOT EXISTS" in each for each in found if each.startswith("CREATE"))
    assert "REVOKE SELECT ON `warpmeter`.`dead_letters` FROM `warpmeter_analyst`" in found
    assert not [each for each in found if "INSERT" in each or "ALL" in each.split()]


def test_a_salt_is_made_anew() -> None:
    assert grants.user("ada", PASSWORD).hash != grants.user("ada", PASSWORD).hash


def test_on_a_cluster_every_statement_is_for_all_of_it() -> None:
    store = Store(database="metrics", cluster="main")
    found = grants.statements(store, Limits(), grants.user("ada", PASSWORD))
    assert all("ON CLUSTER `main`" in each for each in found)
    assert any("`metrics`.`dead_letters_local`" in each for each in found)
    assert any("`metrics_analyst`" in each for each in found)


@pytest.mark.parametrize("name", ["", "a'b", "a`b", "a b", "1a", "x" * 65])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(GrantsError, match="cannot name a user"):
        grants.user(name, PASSWORD)


def test_a_short_password_is_refused_and_not_shown() -> None:
    with pytest.raises(GrantsError, match="has 5 characters: give it 12 or more"):
        grants.user("ada", "short")


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (b"\xef\xbb\xbfcorrect horse battery\n", "a byte order mark"),
        (b"correct horse\0battery\n", r"U\+0000"),
        (b"correct horse battery\nstaple\n", "several lines"),
        (b"correct horse b\xe4ttery\n", "not UTF-8"),
    ],
)
def test_a_file_that_holds_more_than_a_password_is_refused_and_not_shown(tmp_path: Path, held: bytes, why: str) -> None:
    (tmp_path / "password").write_bytes(held)
    with pytest.raises(GrantsError, match=why) as refused:
        granting.password(tmp_path / "password")
    assert "correct" not in str(refused.value)


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory_bytes": -1}, {"seconds": 601}])
def test_limits_that_bound_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(GrantsError):
        Limits(**limits)


def test_the_command_prints_sql(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(granting.PASSWORD, raising=False)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    asked = ["store", "grants", "--print", "--user", "ada"]
    found = CliRunner().invoke(app, [*asked, "--password-file", str(tmp_path / "password")])
    assert found.exit_code == 0
    assert found.stdout.rstrip().endswith("ALTER USER `ada` DEFAULT ROLE `warpmeter_analyst`;")
    refused = CliRunner().invoke(app, asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    nobody = [*asked[:-1], "", "--password-file", str(tmp_path / "password")]
    refused = CliRunner().invoke(app, nobody)  # as of a variable that is not set: not the role without its user
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "cannot name a user" in refused.output


def test_the_engine_in_this_process_has_no_users() -> None:
    found = CliRunner().invoke(app, ["store", "grants", "--store", "chdb:///no/such"])
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("sql", "one"),
    [
        ("SELECT 1", "SELECT 1"),
        (" SELECT ';' ; ;\n", "SELECT ';'"),
        ("SELECT 1 -- ; not here\n", "SELECT 1"),
        ("INSERT INTO t FORMAT CSV\n1;2", "INSERT INTO t FORMAT CSV\n1;2"),
    ],
)
def test_one_statement_is_run(sql: str, one: str) -> None:
    assert asking.one(sql) == one


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; DROP TABLE t", "several statements"),
        ("SELECT 1 ; SELECT 2;", "several statements"),
        ("SELECT 1 INTO/**/OUTFILE '/tmp/x'", "INTO OUTFILE would write"),
        ("SHOW TABLES into outfile 'x'", "INTO OUTFILE would write"),
        (" ; ", "no statement"),
        ("SELECT 'open", "has no end"),
    ],
)
def test_other_texts_are_refused_before_the_engine_sees_them(sql: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asking.one(sql)


def test_who_sends_the_sql_of_a_folder_may_read_what_it_names_of_the_engine() -> None:
    root = Path(__file__).parents[2] / "sql"
    for folder, part in {"alerts": "scheduler", "reports": "scheduler", "queries": "web"}.items():
        text = "".join(file.read_text() for file in (root / folder).glob("*.sql"))
        assert set(re.findall(r"\bsystem\.(\w+)", text)) <= set(grants.PARTS[part].system)
