"""The agent's packages: built, and the deb installed in a booted copy of this machine, where systemd runs the units."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real import agents

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
NAMESPACES: Final = ("unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork")
SYSTEM_PYTHON: Final = Path("/usr/bin/python3").resolve()
CAPABILITIES: Final = {"DAC_READ_SEARCH": 2, "FOWNER": 3, "SYS_PTRACE": 19, "SYS_NICE": 23, "SYSLOG": 34, "PERFMON": 38}


def missing() -> str:
    """What this machine lacks, '' when nothing."""
    if not re.fullmatch(r"python3\.\d+", SYSTEM_PYTHON.name):
        return "packages are made for the distribution's Python: no /usr/bin/python3"
    tools = {"dpkg-deb": "dpkg", "rpmbuild": "rpm", "ip": "iproute2", "/lib/systemd/systemd": "systemd"}
    absent = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if absent:
        return f"apt-get install {' '.join(absent)}"
    return "" if os.geteuid() == 0 else "only root can boot a copy of this machine"


PROBE: Final = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/new
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/new
mount -t proc proc /mnt/new/proc
test -e /sys/fs/cgroup/cgroup.controllers || mount -t cgroup -o none,name=systemd systemd /mnt/work
"""


pytestmark = [pytest.mark.long, pytest.mark.timeout(1200), pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `dist`, both packages."""
    made = tmp_path_factory.mktemp("packages")
    line: list[str | Path] = [
        sys.executable,
        ROOT / "deploy/packages/build.py",
        "--out",
        made / "dist",
        "--python",
        SYSTEM_PYTHON,
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(map(str, (made / "dist").iterdir())) == sorted(done.stdout.split())
    return made


@pytest.fixture(scope="module")
def story(folder: Path) -> Mapping[str, str]:
    """What story.sh said, by its chapters."""
    tried = subprocess.run([*NAMESPACES, "sh", "-c", PROBE], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"a copy of this machine cannot be booted here: {tried.stderr.strip()}")
    shutil.copy(HERE / "story.sh", folder / "script")
    site = Path(pytest.__file__).parents[1]
    with_servers = site.parent.name == SYSTEM_PYTHON.name  # whose libraries the distribution's Python can load
    environment = {**os.environ, "SITE": str(site) if with_servers else "", "SOURCE": str(ROOT)}
    line = [*NAMESPACES, "bash", str(HERE / "boot.sh"), str(folder)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=900, check=False)
    said = (folder / "out/said").read_text() if (folder / "out/said").exists() else ""
    assert (folder / "out/result").exists(), f"{done.stderr}\n{said}"
    assert (folder / "out/result").read_text() == "success\n", said
    return dict(re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", said, re.MULTILINE | re.DOTALL))


def capabilities(said: str, which: str) -> set[str]:
    found = re.search(rf"^{which}:\s*([0-9a-f]+)$", said, re.MULTILINE)
    assert found is not None, said
    bits = int(found[1], 16)
    named = {name for name, bit in CAPABILITIES.items() if bits >> bit & 1}
    assert bits == sum(1 << CAPABILITIES[name] for name in named), said
    return named


def rows(folder: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    return agents.json_rows((folder / "out" / name).read_text())


def test_the_rpm_has_the_same_files_and_keeps_what_is_configured(folder: Path) -> None:
    (rpm,) = (folder / "dist").glob("*.rpm")
    (deb,) = (folder / "dist").glob("*.deb")

    def output(*line: str | Path) -> list[str]:
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout.splitlines()

    listed = {line.split(maxsplit=5)[5].split(" -> ")[0].strip("./") for line in output("dpkg-deb", "-c", deb)}
    names = {line.strip("/") for line in output("rpm", "-qpl", rpm)}
    shared = {"", "opt", "etc", "usr", "usr/bin", "usr/lib", "usr/share", "usr/share/doc", "usr/lib/systemd"}
    shared |= {"usr/lib/systemd/system", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"}
    assert names == listed - shared
    assert output("rpm", "-qpc", rpm) == ["/etc/warpmeter/agent.env", "/etc/warpmeter/warpmeter.toml"]
    assert f"/usr/bin/{SYSTEM_PYTHON.name}" in output("rpm", "-qp", "--requires", rpm)
    assert not [name for name in listed if name.endswith("site-packages/pip")]


def test_the_deb_is_as_a_deb_should_be(folder: Path) -> None:
    (deb,) = (folder / "dist").glob("*.deb")
    done = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, timeout=120, check=True)
    for line in done.stdout.splitlines():
        mode, owner = line.split()[:2]
        assert owner == "root/root", line
        assert mode[0] == "l" or (mode[5] != "w" and mode[8] != "w" and "s" not in mode), line
    fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, timeout=120, check=True).stdout
    for field in ("Package", "Version", "Architecture", "Maintainer", "Depends", "Installed-Size", "Description"):
        assert re.search(rf"^{field}: \S", fields, re.MULTILINE), field
    assert f"Depends: {SYSTEM_PYTHON.name}, systemd (>= 250)" in fields
    (one,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["maintainers"]
    assert f"Maintainer: {one['name']} <{one['email']}>" in fields


def test_it_installs_starts_nothing_and_measures(story: Mapping[str, str], folder: Path) -> None:
    said = story["installed"]
    for line in (
        "640 root:warpmeter /etc/warpmeter/warpmeter.toml", "700 root:root /etc/warpmeter/credentials",
        "1777 warpmeter:warpmeter /run/warpmeter/kineto", "750 warpmeter:warpmeter /var/lib/warpmeter",
        "inactive", "disabled", "once 0",
    ):  # fmt: skip
        assert f"\n{line}\n" in said, said
    assert {"host-samples", "device-samples"} <= rows(folder, "once.json").keys()


def test_without_further_rights_it_has_none_and_says_what_it_may_not(story: Mapping[str, str], folder: Path) -> None:
    said = story["started"]
    assert "wrong settings: failed 2" in said
    for which in ("CapEff", "CapBnd", "CapAmb"):
        assert capabilities(said, which) == set()
    assert re.search(r"^NoNewPrivs:\s*1$", said, re.MULTILINE)
    assert re.search(r"^Seccomp:\s*2$", said, re.MULTILINE)
    mounts = [row for row in rows(folder, "warpmeter-agent.out")["device-samples"] if row.get("fs_type")]
    root = [row for row in mounts if row["device"] == "/"]
    assert root
    assert not any(row.get("read_only") for row in root), "what is read-only to the unit alone"
    assert root[0]["fs_total_mebibytes"] > 0


def test_with_the_rights_for_jobs_it_knows_whose_another_users_process_is(
    story: Mapping[str, str], folder: Path
) -> None:
    said = story["jobs"]
    assert "restarted: yes" in said
    for which in ("CapEff", "CapBnd", "CapAmb"):
        assert capabilities(said, which) == {"SYS_PTRACE", "DAC_READ_SEARCH"}
    jobs = [row for row in rows(folder, "warpmeter-agent.out")["job-events"] if row["job_id"] == "4711"]
    assert {row["scheduler"] for row in jobs} == {"slurm"}


def test_with_all_drop_ins_it_has_what_they_say_and_nothing_is_denied(story: Mapping[str, str], folder: Path) -> None:
    said = story["rights"]
    for which in ("CapEff", "CapBnd", "CapAmb"):
        assert capabilities(said, which) == set(CAPABILITIES)
    stacks = [row for row in rows(folder, "warpmeter-agent.out")["stack-samples"] if row["source"] == "py-spy"]
    assert {row["job_id"] for row in stacks} == {"4711"}
    told = (folder / "out/warpmeter-agent.err").read_text()
    assert '"denied"' not in told
    assert "told-by-a-credential" not in told


def test_an_upgrade_keeps_what_was_configured_and_starts_it_again(story: Mapping[str, str]) -> None:
    assert "restarted: yes active" in story["upgraded"]
    assert story["upgraded"].endswith("# ours\n")


def test_the_servers_run_within_all_that_their_units_forbid(story: Mapping[str, str], folder: Path) -> None:
    if "servers" not in story:
        pytest.skip(f"these libraries are not of {SYSTEM_PYTHON}")
    said = story["servers"]
    for unit in ("warpmeter-web", "warpmeter-ingest@9702", "warpmeter-scheduler"):
        assert f"{unit}: active 0\n" in said, said
        assert f"{unit}: inactive 0\n" in said, said
        assert f"login of {unit.removeprefix('warpmeter-').partition('@')[0]}\n" in said, "each has one of its own"
    assert said.count("CapBnd:\t0000000000000000 Seccomp:\t2 0\n") == 3, said
    assert "hidden" not in said
    assert "<html" in (folder / "out/page").read_text().lower()


def test_a_removal_keeps_settings_and_spool_and_a_purge_takes_its_own(story: Mapping[str, str]) -> None:
    removed = story["removed"]
    assert "unit: inactive not-found" in removed
    assert removed.endswith("/etc/warpmeter/warpmeter.toml\n/var/lib/warpmeter/spool/kept\n")
    purged = story["purged"].splitlines()
    assert "/var/lib/warpmeter/traces" in purged
    assert "/etc/warpmeter/credentials" in purged
    assert not [line for line in purged if line.startswith(("/etc/warpmeter/warpmeter", "/var/lib/warpmeter/spool"))]
