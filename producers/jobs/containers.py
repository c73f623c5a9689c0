"""Which container a process runs in, by the path of its cgroup: pure.

Paths (cgroup v1 has one line a controller, v2 one line in all), with the systemd or the cgroupfs driver:

- Docker: `/docker/<id>`, `/system.slice/docker-<id>.scope`
- Podman: `/machine.slice/libpod-<id>.scope`, `…/libpod-<id>.scope/container`
- containerd: `/kubepods/burstable/pod<uid>/<id>`, `…/cri-containerd-<id>.scope`, `…:cri-containerd:<id>`
- CRI-O: `…/crio-<id>.scope`
"""

import re
from dataclasses import dataclass
from typing import Final

ID: Final = re.compile(r"(?:(docker|libpod|crio|cri-containerd|cri-o)[-:/])?([0-9a-f]{64})(?=[./]|$)")
POD_UID: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")
RUNTIMES: Final = {
    "docker": "docker",
    "libpod": "podman",
    "crio": "cri-o",
    "cri-o": "cri-o",
    "cri-containerd": "containerd",
}


@dataclass(frozen=True)
class Container:
    """A container: its id of 64 hexadecimal digits, its runtime and its pod's UID; '' where the path does not tell."""

    id: str
    runtime: str = ""
    pod_uid: str = ""


def container_of(cgroup: bytes) -> Container | None:
    """From `/proc/<pid>/cgroup`: the innermost container, None when the process is in none."""
    for line in cgroup.decode(errors="replace").splitlines():
        path = line.split(":", 2)[-1]
        if found := ID.findall(path):
            runtime, number = found[-1]
            pod = POD_UID.findall(path)
            return Container(number, RUNTIMES.get(runtime, ""), pod[-1].replace("_", "-") if pod else "")
    return None


def inner_pid(status: bytes) -> str:
    """From `/proc/<pid>/status`: the pid in the innermost pid namespace, '' when that is the host's."""
    line = next((line for line in status.splitlines() if line.startswith(b"NSpid:")), b"")
    pids = line.split()[1:]
    return pids[-1].decode() if len(pids) > 1 else ""
