"""The fleet of docs/deploy/fleet.md: its files and commands as they stand there, on machines that share a bridge.

A machine has a network, a name, `/etc`, `/run` and `/var/lib` of its own; names are found in its `/etc/hosts`. Nothing
of the page is replaced: what a command is given beside it is an environment (`Fleet.environment`). Needs root.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.brokers import maven
from tests.brokers.apache import JVM
from tests.brokers.process import spawn, tail
from tests.documentation import ROOT, blocks_of
from tests.netns import Net, bridged
from tests.signals import tell
from tests.wait import until

PAGE: Final = ROOT / "docs" / "deploy" / "fleet.md"
TOOLS: Final = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}
HEAD: Final = re.compile(r"# (?:(/\S+) )?on (.+)")
"""What a block begins with: the file that it is, and where."""
PARTS: Final = re.compile(r"^\d\. `([^`]+)` on ([^.]+)\.", re.MULTILINE)
"""What is restarted, and where."""
ALL_UP_S: Final = 600.0
AS_JAVA: Final = 128 + signal.SIGTERM
"""How Java ends of SIGTERM."""
BOOT: Final = """
mount --bind {own}/etc /etc && mount --bind {own}/run /run && mount --bind {own}/lib /var/lib &&
echo {name} > /proc/sys/kernel/hostname && cd {own} || exit 96
"""


@dataclass(frozen=True)
class Step:
    """One block of the page: what is run on which machines, or the file that each of them gets."""

    machines: tuple[str, ...]
    file: str
    how: str
    text: str

    @property
    def stays(self) -> bool:
        """It does not end."""
        return "leave it running" in self.how

    @property
    def again(self) -> bool:
        """It may fail for a while."""
        return "again until it succeeds" in self.how


def section(heading: str) -> str:
    """Those sections of the page whose headings begin so."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    found = "".join(part for part in parts if re.match(heading, part))
    assert found, heading
    return found


def names() -> tuple[str, ...]:
    """All machines, as the page's table has them."""
    rows = re.findall(r"^\| ([a-z]+(?:-\d)?(?:, [a-z]+-\d)*) \|", PAGE.read_text(), re.MULTILINE)
    return tuple(name for row in rows if row != "machines" for name in row.split(", "))


def named(said: str) -> tuple[str, ...]:
    """Those of the machines that some words name."""
    return tuple(name for name in names() if re.search(rf"\b{name}\b", said))


def steps(part: str) -> Iterator[Step]:
    """What a part of the page says to do, in its order."""
    for block in blocks_of(PAGE, part):
        if head := HEAD.match(block.text):
            yield Step(named(head[2]), head[1] or "", head[2], block.text)


def rolling() -> Iterator[tuple[str, tuple[str, ...], list[Step]]]:
    """Of the rolling restart each part: what its command begins with, its machines, what is asked after each."""
    _, *found = PARTS.split(section("A rolling restart"))
    for command, where, rest in zip(found[::3], found[1::3], found[2::3], strict=True):
        yield command, named(where), list(steps(rest))


@dataclass
class Part:
    """A command that does not end, on one machine."""

    machine: str
    command: str
    log: Path
    process: subprocess.Popen[bytes]


@dataclass
class Fleet:
    """Machines by their names; `parts` are what runs. `environment` is given to every command, beside the page's."""

    folder: Path
    net: Net
    names: Sequence[str]
    environment: Mapping[str, str]
    parts: list[Part] = field(default_factory=list)

    def number(self, machine: str) -> int:
        """Its number on the bridge."""
        return self.names.index(machine) + 1

    def address(self, machine: str) -> str:
        """Where it is reached from here."""
        return self.net.address(self.number(machine))

    def own(self, machine: str) -> Path:
        """What is its own of the file system: `etc`, `run`, and `lib` of /var."""
        return self.folder / machine

    def make(self) -> None:
        """Its machines, with nothing on them but what this one has in /etc."""
        known = "".join(f"{self.address(name)} {name}\n" for name in self.names)
        for name in self.names:
            for each in ("run", "lib"):
                (self.own(name) / each).mkdir(parents=True)
            subprocess.run(["cp", "-a", "/etc", self.own(name)], check=True)
            (self.own(name) / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n{known}")
        tools = self.folder / "bin"
        tools.mkdir()
        for tool, main in TOOLS.items():
            options = " ".join((*JVM, "-cp", f"'{maven.jars()}/*'", main))
            (tools / tool).write_text(f'#!/bin/sh\nexec {maven.java()} {options} "$@"\n')
            (tools / tool).chmod(0o755)

    def line(self, machine: str, script: str) -> list[str]:
        """A shell script on a machine."""
        boot = BOOT.format(own=self.own(machine), name=machine)
        return [*self.net.within(self.number(machine)), "unshare", "--mount", "--uts", "sh", "-c", boot + script]

    def _environ(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("WARPMETER_")}
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**inherited, "PATH": path, "XDG_DATA_HOME": "/var/lib/data", **self.environment}

    def ask(self, machine: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run to its end."""
        line, environ = self.line(machine, f"set -e\n{script}"), self._environ()
        return subprocess.run(line, env=environ, capture_output=True, text=True, timeout=ALL_UP_S)

    def do(self, step: Step) -> str:
        """What it printed, of all its machines. A file is written; what stays is started and left."""
        if step.file:
            for machine in step.machines:
                place = self.own(machine) / step.file.removeprefix("/")
                place.parent.mkdir(exist_ok=True)
                place.write_text(step.text)
            return ""
        if step.stays:
            for machine in step.machines:
                self.start(machine, step.text.splitlines()[-1])
            return ""
        return "".join(self._done(step, machine) for machine in step.machines)

    def _done(self, step: Step, machine: str) -> str:
        found = self.ask(machine, step.text)

        def good() -> bool:
            nonlocal found
            if found.returncode != 0 and step.again:
                found = self.ask(machine, step.text)
            return found.returncode == 0

        try:
            until(good, f"success on {machine} of {step.text}", ALL_UP_S if step.again else 0.0, 4.0)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found.stdout}{found.stderr}{self}") from None
        return found.stdout

    def start(self, machine: str, command: str) -> Part:
        """One of its commands that stay."""
        log = self.folder / f"{machine}-{command.split()[-1].rpartition('/')[2]}.log"
        process = spawn(self.line(machine, f"exec {command} 2>> {log}.err"), log, self._environ())
        part = Part(machine, command, log, process)
        self.parts.append(part)
        return part

    def running(self, program: str, machine: str) -> Part:
        """The part whose command begins so."""
        (found,) = (each for each in self.parts if each.machine == machine and each.command.startswith(program))
        return found

    def stop(self, part: Part) -> None:
        """As an operator would; it ends as it should."""
        tell(part.process)
        self.parts.remove(part)
        status = part.process.wait(120)
        assert status in (0, AS_JAVA), f"{part.command} on {part.machine} ended with {status}"

    def close(self) -> None:
        """End what runs."""
        for part in self.parts:
            part.process.kill()
        for part in self.parts:
            part.process.wait()

    def __str__(self) -> str:
        return "".join(
            f"\n{part.command} on {part.machine} ({part.process.poll()}):\n{tail(Path(f'{part.log}.err'), 6)}"
            for part in self.parts
        )


@contextmanager
def fleet(folder: Path, environment: Mapping[str, str]) -> Iterator[Fleet]:
    """All machines that the page names, and nothing on them; raises KafkaMissingError."""
    with ExitStack() as stack:
        made = Fleet(folder, stack.enter_context(bridged(len(names()))), names(), environment)
        made.make()
        stack.callback(made.close)
        yield made
