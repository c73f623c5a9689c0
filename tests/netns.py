"""Hosts of one machine: each a network namespace on a bridge, with processes of its own. Needs root and `ip`."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
INTERFACE: Final = "eth0"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Net:
    """A bridge; host N has the address `address(N)`, this machine `address(254)`."""

    tag: str
    third: int

    def address(self, number: int) -> str:
        """On the bridge."""
        return f"10.213.{self.third}.{number}"

    def within(self, number: int) -> list[str]:
        """What a command line begins with to be run in the network of host `number`."""
        return ["ip", "netns", "exec", f"{self.tag}-{number}"]

    def cut(self, number: int) -> None:
        """Nothing comes from host `number`, or gets there, until `mend`."""
        _ip("link", "set", f"{self.tag}o{number}", "down")

    def mend(self, number: int) -> None:
        """It is on the bridge again."""
        _ip("link", "set", f"{self.tag}o{number}", "up")

    def run(self, number: int, script: str, environment: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """A shell script as the first process of host `number`: all of the host ends with it."""
        line = [*self.within(number), "unshare", "--pid", "--fork", "--mount-proc"]
        return subprocess.Popen(
            [*line, "--kill-child", "sh", "-c", script], env={**os.environ, **environment}, cwd=ROOT, stdout=log,
            stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def alone() -> list[str]:
    """What a command line begins with to have a network of its own, without the abstract sockets of this machine's
    other processes; empty where that cannot be."""
    for line in (["unshare", "--net"], ["unshare", "--net", "--map-root-user"]):
        with suppress(FileNotFoundError):
            if subprocess.run([*line, "true"], check=False, capture_output=True).returncode == 0:
                return line
    return []


@contextmanager
def bridged(hosts: int, port: int | None = None) -> Iterator[Net]:
    """So many hosts, numbered from 1; `port` of this machine's loopback, if any, is that of its address there, too.

    Skips where namespaces cannot be made.
    """
    net = Net(f"wm{secrets.token_hex(3)}", _unused())
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need root, ip (iproute2) and unshare (util-linux)")
    with ExitStack() as stack:
        try:
            _ip("link", "add", net.tag, "type", "bridge")
            stack.callback(_ip, "link", "del", net.tag)
            _ip("addr", "add", f"{net.address(254)}/24", "dev", net.tag)
            _ip("link", "set", net.tag, "up")
            for number in range(1, hosts + 1):
                _add(net, number, stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        if port is not None:
            line = [sys.executable, str(ROOT / "tests" / "relay.py"), net.address(254), "127.0.0.1", str(port)]
            relay = subprocess.Popen(line)
            stack.callback(relay.wait)
            stack.callback(relay.kill)
        yield net


def _unused() -> int:
    """The third number of a network that this machine has not: another run may be at work, or have left its own."""
    if shutil.which("ip") is None:
        return 0
    there = subprocess.run(["ip", "-4", "-oneline", "address"], check=False, capture_output=True, text=True).stdout
    return secrets.choice([third for third in range(20, 220) if f" 10.213.{third}." not in there])


def _add(net: Net, number: int, stack: ExitStack) -> None:
    name, outside, inside = f"{net.tag}-{number}", f"{net.tag}o{number}", f"{net.tag}i{number}"
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)
    _ip("link", "add", outside, "type", "veth", "peer", "name", inside)
    stack.callback(subprocess.run, ["ip", "link", "del", outside], check=False, capture_output=True)
    _ip("link", "set", outside, "master", net.tag, "up")
    _ip("link", "set", inside, "netns", name)
    within = ("-n", name)
    _ip(*within, "link", "set", inside, "name", INTERFACE)
    _ip(*within, "addr", "add", f"{net.address(number)}/24", "dev", INTERFACE)
    _ip(*within, "link", "set", INTERFACE, "up")
    _ip(*within, "link", "set", "lo", "up")
