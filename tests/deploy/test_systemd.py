"""The units of deploy/systemd: what systemd itself says of them, of their drop-ins, and of the statuses they know."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from warpmeter import config

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = ROOT / "deploy" / "systemd"
ANALYZE: Final = shutil.which("systemd-analyze")
EXPOSURE: Final = {"warpmeter-agent": 1.8, "warpmeter-ingest@": 1.1, "warpmeter-scheduler": 1.2, "warpmeter-web": 1.1}
"""At most, as docs/deploy/systemd.md says; 10 is a service without any bound, below 2 is what systemd calls safe."""
with_systemd = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze: apt-get install systemd")


def names(suffix: str) -> list[str]:
    return sorted(path.name for path in UNITS.rglob(f"*{suffix}"))


def lines(path: Path) -> list[str]:
    """What systemd reads of a file, sections and comments left out."""
    return [line for line in path.read_text().splitlines() if line and line[0] not in "#["]


def analyze(*words: str, cwd: Path) -> str:
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_every_unit_is_there_and_has_its_bound() -> None:
    assert [name.removesuffix(".service") for name in names(".service")] == sorted(EXPOSURE)


@with_systemd
@pytest.mark.parametrize("unit", sorted(EXPOSURE))
def test_a_unit_is_no_more_exposed_than_its_page_says(unit: str, tmp_path: Path) -> None:
    shutil.copy(UNITS / f"{unit}.service", tmp_path)
    said = analyze("security", "--offline=true", "--no-pager", f"./{unit}.service", cwd=tmp_path)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE[unit], said
    page = (ROOT / "docs/deploy/systemd.md").read_text()
    assert re.search(rf"`{unit}(\.service|N)?`.*\| {EXPOSURE[unit]} \|", page), f"{unit} is not in the page's table"


@with_systemd
def test_the_bound_on_addresses_is_one_as_the_page_writes_it(tmp_path: Path) -> None:
    page = (ROOT / "docs/deploy/systemd.md").read_text()
    (bound,) = re.findall(r"^```ini\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    unit = tmp_path / "warpmeter-agent.service"
    unit.write_text((UNITS / unit.name).read_text() + bound)
    said = analyze("security", "--offline=true", "--no-pager", f"./{unit.name}", cwd=tmp_path)
    assert "Service does not define an IP address allow list" not in said
    assert "Overall exposure level for warpmeter-agent.service: 1.7" in said, said
    assert "brings the agent to 1.7" in page


@with_systemd
def test_systemd_takes_every_unit_with_every_drop_in(tmp_path: Path) -> None:
    """A word that systemd does not know it only warns of, and then ignores: a warning is a failure here."""
    for unit in UNITS.glob("*.service"):
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
        folder = tmp_path / f"{unit.name}.d"
        folder.mkdir()
        part = unit.stem.removeprefix("warpmeter-").removesuffix("@")
        for drop_in in (UNITS / "drop-ins").glob("*.conf"):
            if drop_in.name.partition("-")[0] in (part, "kafka", "store"):
                shutil.copy(drop_in, folder)
    shutil.copy(tmp_path / "warpmeter-ingest@.service", tmp_path / "warpmeter-ingest@9702.service")
    said = analyze(
        "verify", "--man=no", "--recursive-errors=no", *map(str, tmp_path.glob("*[!@].service")), cwd=tmp_path
    )
    ours = [line for line in said.splitlines() if "warpmeter" in line or str(tmp_path) in line]
    assert not ours, said


@pytest.mark.parametrize("name", names(".service"))
def test_a_unit_does_with_exit_statuses_what_the_page_on_delivery_says(name: str) -> None:
    told = lines(UNITS / name)
    assert "Restart=on-failure" in told
    assert "RestartPreventExitStatus=2 78" in told
    assert "TimeoutStopSec=15" in told
    page = (ROOT / "docs/delivery.md").read_text()
    assert "`RestartPreventExitStatus=2 78`" in page


def test_rights_are_added_by_drop_ins_alone() -> None:
    for name in names(".service"):
        told = lines(UNITS / name)
        assert "CapabilityBoundingSet=" in told
        assert "AmbientCapabilities=" in told
        assert not [line for line in told if "CAP_" in line]
    for path in (UNITS / "drop-ins").glob("agent-*.conf"):
        bounds = [line.partition("=")[2] for line in lines(path) if line.startswith("CapabilityBoundingSet=")]
        ambient = [line.partition("=")[2] for line in lines(path) if line.startswith("AmbientCapabilities=")]
        assert bounds == ambient


def test_the_page_names_every_drop_in_with_all_that_it_gives() -> None:
    page = (ROOT / "docs/deploy/systemd.md").read_text()
    rows = {row.split("|")[1].strip().strip("`"): row for row in page.splitlines() if row.startswith("| `")}
    for path in (UNITS / "drop-ins").glob("*.conf"):
        row = rows[path.name]
        for right in re.findall(r"CAP_\w+", "\n".join(lines(path))):
            assert right in row, f"{path.name}: {right}"


def test_the_settings_are_ones_that_warpmeter_takes(tmp_path: Path) -> None:
    text = (UNITS / "warpmeter.toml").read_text()
    assert config.load(UNITS / "warpmeter.toml").kafka.bootstrap_servers == "127.0.0.1:9092"
    every = tmp_path / "warpmeter.toml"
    every.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    settings = config.load(every)
    assert settings.traces.url == "s3://bucket/traces"
    assert not settings.agent.stacks


def test_every_variable_of_the_units_is_one_that_warpmeter_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "".join(path.read_text() for path in UNITS.rglob("*") if path.is_file())
    values = {"WARPMETER_METRICS__INGEST_PORT": "9702", "WARPMETER_LOG__LEVEL": "debug"}
    held = {
        "WARPMETER_KAFKA__OPTIONS_FILE": '{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}',
        "WARPMETER_STORE__DSN_FILE": "https://warpmeter_ingest:hidden@clickhouse:8443",
        "WARPMETER_WEB__SESSION_SECRET_FILE": "0123456789abcdef0123456789abcdef",
        "WARPMETER_WEB__TLS_CERTIFICATE": "",
        "WARPMETER_WEB__TLS_KEY": "",
    }
    for name in sorted(set(re.findall(r"(WARPMETER_[A-Z_]*[A-Z])=", said))):
        path = tmp_path / name
        path.write_text(held.get(name, ""))
        monkeypatch.setenv(name, values.get(name, str(path)))
    settings = config.load(UNITS / "warpmeter.toml")
    assert settings.kafka.options["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings.store.dsn == held["WARPMETER_STORE__DSN_FILE"]
    assert "hidden" not in str(config.shown(settings))
    assert settings.metrics.ingest_port == 9702


@pytest.mark.parametrize("page", ["systemd.md", "slurm.md"])
def test_what_the_pages_say_to_type_is_there(page: str) -> None:
    from typer.main import get_command

    from warpmeter.cli import app

    known = getattr(get_command(app), "commands", {})
    text = (ROOT / "docs/deploy" / page).read_text()
    typed = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^warpmeter (\w+)", typed, re.MULTILINE) + re.findall(r"`warpmeter (\w+)", text)
    assert set(commands) <= set(known), commands
    files = re.findall(r"deploy/systemd/\S+\.\w+", typed)
    files += [f"deploy/systemd/drop-ins/{name}" for name in re.findall(r"/usr/share/warpmeter/drop-ins/(\S+)", typed)]
    files += [f"deploy/slurm/{name}" for name in re.findall(r"/etc/slurm/warpmeter/([\w-]+)", text)]
    assert files
    for name in files:
        assert (ROOT / name).is_file(), name
    for target in re.findall(r"make (\w+)", typed):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()
    for link in re.findall(r"\]\(([^)#:]+)", text):
        assert (ROOT / "docs/deploy" / link).exists(), link
