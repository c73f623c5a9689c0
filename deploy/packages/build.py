"""The agent as a deb and an rpm: `make packages`, or this script by the interpreter of a development environment.

Both carry one tree: a virtual environment in /opt/warpmeter that uses the distribution's own Python, of the minor
version that it was made for, and has no pip. What it holds beside warpmeter is kept in the cache from one run to the
next.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = ROOT / "deploy" / "packages"
HOME: Final = "opt/warpmeter"
EXTRAS: Final = ("agent", "kubernetes")
DEB_ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAMS: Final = ("python", "warpmeter", "py-spy")
"""Of what libraries bring along, and of an environment's scripts for shells, nobody needs anything here."""
CONFFILES: Final = ("etc/warpmeter/warpmeter.toml", "etc/warpmeter/agent.env")


@dataclass(frozen=True)
class Asked:
    """What is to be made. `python`: the interpreter of the hosts, e.g. /usr/bin/python3.11; `maintainer`: whom the
    package names, as NAME <ADDRESS>."""

    python: Path
    out: Path
    cache: Path
    release: str
    formats: Sequence[str]
    maintainer: str

    @property
    def fields(self) -> dict[str, str]:
        """What `control` and the spec leave open, but for sizes and places."""
        machine = platform.machine()
        return {
            "version": project()["version"], "release": self.release, "python": self.python.name,
            "deb_arch": DEB_ARCH.get(machine, machine), "maintainer": self.maintainer,
        }  # fmt: skip


def project() -> dict[str, Any]:
    """`[project]` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def maintainer() -> str:
    """Who maintains it, where whoever publishes packages names nobody else."""
    (one,) = project()["maintainers"]
    return f"{one['name']} <{one['email']}>"


def requirements() -> list[str]:
    """What the agent needs beside warpmeter."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = table["optional-dependencies"]
    return [*table["dependencies"], *(each for extra in EXTRAS for each in extras[extra])]


def run(*line: str | Path, cwd: Path = ROOT) -> None:
    """A command that must succeed; what it says goes to standard error when it does not."""
    done = subprocess.run(line, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, line))}: exit status {done.returncode}")


def environment(asked: Asked) -> Path:
    """The environment without warpmeter, made once for each set of requirements and Python."""
    said = "\n".join([*requirements(), (ROOT / "constraints.txt").read_text(), str(asked.python), platform.machine()])
    kept = asked.cache / hashlib.sha256((said + Path(__file__).read_text()).encode()).hexdigest()[:16]
    if not kept.exists():
        made = Path(tempfile.mkdtemp(prefix="new-", dir=asked.cache)) / "venv"
        run(asked.python, "-m", "venv", "--without-pip", "--symlinks", made)
        install(made, "--only-binary=:all:", "--constraint", str(ROOT / "constraints.txt"), *requirements())
        compiled(asked, made, made)
        relocate(made, made)
        made.rename(kept)
        made.parent.rmdir()
    return kept


def install(where: Path, *words: str) -> None:
    """By this environment's pip into that one."""
    pip = (sys.executable, "-m", "pip", "--python", where / "bin" / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", *words)


def compiled(asked: Asked, below: Path, home: Path) -> None:
    """Byte code for the place where it will lie, taken without a look at the source's time: nobody may write there."""
    lib = "-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-s", home, "-p", f"/{HOME}", below
    run(asked.python, "-m", "compileall", *lib)


def relocate(where: Path, was: Path) -> None:
    """An environment that was made at `was` is one of /opt/warpmeter: its scripts name it."""
    for path in (where / "bin").iterdir():
        if not path.name.startswith(PROGRAMS):
            path.unlink()
        elif path.is_file() and not path.is_symlink() and (text := path.read_bytes()).startswith(b"#!"):
            path.write_bytes(text.replace(os.fsencode(was), f"/{HOME}".encode()))
    cfg = where / "pyvenv.cfg"
    cfg.write_text("".join(line for line in cfg.read_text().splitlines(True) if not line.startswith("command")))


def staged(asked: Asked, stage: Path) -> None:
    """All files of the package, where they belong."""
    home = stage / HOME
    home.parent.mkdir(parents=True)
    shutil.copytree(environment(asked), home, symlinks=True)
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
        install(home, "--no-deps", "--no-index", str(next(Path(folder).glob("*.whl"))))
    relocate(home, home)
    (package,) = home.glob("lib/python*/site-packages/warpmeter")
    compiled(asked, package, home)
    (home / "hook").symlink_to(package.joinpath("hook").relative_to(home))
    for source, target in files():
        path = stage / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    (stage / "usr/bin").mkdir(parents=True)
    (stage / "usr/bin/warpmeter").symlink_to(f"/{HOME}/bin/warpmeter")
    run("chmod", "-R", "u=rwX,go=rX", stage)


def files() -> list[tuple[Path, str]]:
    """What is installed as it stands here."""
    systemd, slurm, doc = ROOT / "deploy/systemd", ROOT / "deploy/slurm", "usr/share/doc/warpmeter-agent"
    return [
        (systemd / "warpmeter-agent.service", "usr/lib/systemd/system/warpmeter-agent.service"),
        (systemd / "warpmeter.sysusers", "usr/lib/sysusers.d/warpmeter.conf"),
        (systemd / "warpmeter.tmpfiles", "usr/lib/tmpfiles.d/warpmeter.conf"),
        (systemd / "warpmeter.toml", "etc/warpmeter/warpmeter.toml"),
        (systemd / "agent.env", "etc/warpmeter/agent.env"),
        *((path, f"usr/share/warpmeter/drop-ins/{path.name}") for path in sorted((systemd / "drop-ins").iterdir())),
        *((path, f"usr/share/warpmeter/slurm/{path.name}") for path in sorted(slurm.iterdir())),
        *((path, f"{doc}/{path.name}") for path in (ROOT / "docs/deploy/systemd.md", ROOT / "docs/deploy/slurm.md")),
        (ROOT / "LICENSE", f"{doc}/copyright"),
    ]


def deb(asked: Asked, stage: Path) -> None:
    """By dpkg-deb. zstd: what every dpkg reads that comes with Python 3.11."""
    folder = stage / "DEBIAN"
    folder.mkdir()
    size = sum(path.lstat().st_size for path in stage.rglob("*")) >> 10
    (folder / "control").write_text((HERE / "control").read_text().format(**asked.fields, kilobytes=size))
    (folder / "conffiles").write_text("".join(f"/{name}\n" for name in CONFFILES))
    for name in ("postinst", "prerm", "postrm"):
        shutil.copy(HERE / name, folder)
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", stage, asked.out)
    shutil.rmtree(folder)


def rpm(asked: Asked, stage: Path) -> None:
    """By rpmbuild, which takes the tree as it is."""
    with tempfile.TemporaryDirectory() as top:
        spec = Path(top) / "warpmeter-agent.spec"
        spec.write_text((HERE / "warpmeter-agent.spec").read_text().format(**asked.fields, stage=stage))
        run("rpmbuild", "--quiet", "-bb", f"--define=_topdir {top}", f"--define=_rpmdir {top}/RPMS", spec)
        for path in Path(top).glob("RPMS/*/*.rpm"):
            shutil.copy(path, asked.out)


TOOLS: Final = {"deb": (deb, "dpkg-deb", "dpkg"), "rpm": (rpm, "rpmbuild", "rpm")}


def main() -> None:
    """Make what is asked for, and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path("/usr/bin/python3"), help="the hosts' interpreter")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/warpmeter/packages")
    parser.add_argument("--release", default="1")
    parser.add_argument("--maintainer", default=maintainer(), metavar="'NAME <ADDRESS>'", help="who answers for them")
    parser.add_argument("--format", action="append", choices=list(TOOLS), help="one of them alone")
    given = parser.parse_args()
    asked = Asked(
        given.python.resolve(), given.out.resolve(), given.cache, given.release, given.format or list(TOOLS),
        given.maintainer,
    )  # fmt: skip
    if not re.fullmatch(r"python3\.\d+", asked.python.name):
        sys.exit(f"{given.python} is {asked.python}: give the distribution's own interpreter, as /usr/bin/python3.11")
    for name in asked.formats:
        if shutil.which(TOOLS[name][1]) is None:
            sys.exit(f"no {name} without {TOOLS[name][1]}: apt-get install {TOOLS[name][2]}")
    asked.cache.mkdir(parents=True, exist_ok=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="warpmeter-packages-") as folder:
        stage = Path(folder) / "stage"
        staged(asked, stage)
        for name in asked.formats:
            TOOLS[name][0](asked, stage)
    print(*sorted(asked.out.glob(f"warpmeter-agent[-_]*{asked.release}[_.]*")), sep="\n")


if __name__ == "__main__":
    main()
