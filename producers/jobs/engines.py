"""Names of containers from Docker and Podman, over their Unix sockets: the containers of jobs only, each asked once.

APIs: Docker Engine `GET /containers/<id>/json`; Podman answers the same at its own socket, and without a socket (it
runs no daemon) its storage has `<driver>-containers/containers.json`. Both answers also hold environments: of them only
name and image are taken.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.jobs.containers import Container
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.source import Health, Reading, Sample
from warpmeter.producers.timely import TimelyResponse
from warpmeter.settings import Agent

SOCKETS: Final = {
    "docker": (("run", "docker.sock"), ("var", "run", "docker.sock")),
    "podman": (("run", "podman", "podman.sock"),),
}
PODMAN_STORAGE: Final = ("var", "lib", "containers", "storage")
STORED: Final = "*-containers/containers.json"
"""In there, by storage driver: `overlay-containers`, `vfs-containers`."""
ANSWER_S: Final = 1.0
READ_S: Final = 3.0
"""One read asks for so long at most; what is left waits for the next."""
ANSWER_MAX: Final = 4 << 20
ODD: Final = (AttributeError, IndexError, KeyError, TypeError)
"""What a description of another shape raises."""
AGAIN_S: Final = 30.0
"""A container that its engine does not know, or an engine that fails, is asked again after so long."""
HELP: Final = {
    "docker": "run the agent as root or in the group docker; in a container, mount /run/docker.sock",
    "podman": "run the agent as root, and enable podman.socket; in a container, mount /run/podman/podman.sock",
}


class EngineError(Exception):
    """An engine gave no answer, with why."""


@dataclass(frozen=True)
class EnginesRaw:
    """What was learnt by now: labels by container id, and the engines that failed, each with why."""

    known: Mapping[str, Mapping[str, str]]
    failed: Mapping[str, Health]


class _Unix(HTTPConnection):
    """HTTP over a Unix socket."""

    response_class = TimelyResponse

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(self._path)


class EngineSource:
    """Publishes no rows: it tells the job source the names of containers, and how the engines fare."""

    name = "containers"
    topic = "job-events"
    timeout_s = 2 * READ_S

    def __init__(self, agent: Agent, names: Names, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.period_s = agent.job_interval_s
        self._root, self._names, self._monotonic = agent.root, names, monotonic
        self._known: dict[str, Mapping[str, str]] = {}
        self._not_before: dict[str, float] = {}
        self._failed: dict[str, Health] = {}

    def read(self) -> EnginesRaw:
        """Ask for the containers that are wanted and not known; never raises for an engine that is absent or ill."""
        wanted = {
            number: each
            for number, each in self._names.wanted.items()
            if each.runtime in SOCKETS and not each.pod_uid  # of a pod's container the kubelet's runtime tells
        }
        self._known = {number: labels for number, labels in self._known.items() if number in wanted}
        until = self._monotonic() + READ_S
        for number, container in wanted.items():
            if number not in self._known and self._due(number) and self._monotonic() < until:
                self._ask(container)
        self._failed = {engine: each for engine, each in self._failed.items() if _uses(engine, wanted)}
        self._not_before = {key: at for key, at in self._not_before.items() if key in wanted or key in SOCKETS}
        return EnginesRaw(dict(self._known), dict(self._failed))

    def parse(self, sample: Sample[EnginesRaw], before: Sample[EnginesRaw] | None) -> Reading:  # noqa: ARG002
        """Hand the names over."""
        self._names.set_containers(sample.raw.known)
        return Reading((), list(sample.raw.failed.values()))

    def close(self) -> None:
        """Nothing is held."""

    def _due(self, number: str) -> bool:
        runtime = self._names.wanted[number].runtime if number in self._names.wanted else ""
        return all(self._monotonic() >= self._not_before.get(key, 0.0) for key in (number, runtime))

    def _ask(self, container: Container) -> None:
        try:
            labels = described(self._root, container)
        except PermissionError as error:
            self._fail(container.runtime, Health(container.runtime, "denied", f"{error}; {HELP[container.runtime]}"))
        except FileNotFoundError:
            why = f"no socket of {container.runtime}, so its containers have no names; {HELP[container.runtime]}"
            self._fail(container.runtime, Health(container.runtime, "unsupported", why))
        except (OSError, HTTPException, EngineError, ValueError, *ODD) as error:
            why = f"{type(error).__name__}: {error}; asked again in {AGAIN_S:g} s"
            self._fail(container.runtime, Health(container.runtime, "failed", why))
        else:
            self._failed.pop(container.runtime, None)
            if labels is None:
                self._not_before[container.id] = self._monotonic() + AGAIN_S
            else:
                self._known[container.id] = labels

    def _fail(self, engine: str, health: Health) -> None:
        self._failed[engine] = health
        self._not_before[engine] = self._monotonic() + AGAIN_S


def described(root: Path, container: Container) -> dict[str, str] | None:
    """Name and image of a container as labels, None when its engine does not know it.

    Raises FileNotFoundError without a socket, and what a socket, HTTP or JSON raises.
    """
    paths = [files.below(root, *parts) for parts in SOCKETS[container.runtime]]
    path = next((path for path in paths if Path(path).exists()), None)
    if path is not None:
        return _inspected(path, container.id)
    stored = sorted(root.joinpath(*PODMAN_STORAGE).glob(STORED)) if container.runtime == "podman" else []
    if not stored:
        raise FileNotFoundError(paths[0])
    told = (parse_storage(files.read(str(path)), container.id) for path in stored)
    return next((labels for labels in told if labels is not None), None)


def parse_inspect(answer: bytes) -> dict[str, str]:
    """Of an engine's description of a container: its name and image."""
    told = json.loads(answer)
    if not isinstance(told, dict):
        raise ValueError("the answer is no JSON object")
    config = told.get("Config")
    image = config.get("Image") if isinstance(config, dict) else None
    return _labels(str(told.get("Name") or "").removeprefix("/"), str(image or ""))


def parse_storage(text: bytes, number: str) -> dict[str, str] | None:
    """Of Podman's storage: the name and image of one container, None when it is not in there."""
    told: list[dict[str, Any]] = json.loads(text)
    found = next((each for each in told if each.get("id") == number), None)
    if found is None:
        return None
    names, metadata = found.get("names") or [""], json.loads(found.get("metadata") or "{}")
    return _labels(str(names[0]), str(metadata.get("image-name") or ""))


def _inspected(path: str, number: str) -> dict[str, str] | None:
    connection = _Unix(path)
    try:
        connection.request("GET", f"/containers/{number}/json")
        response = connection.getresponse()
        answer = response.read(ANSWER_MAX)
    finally:
        connection.close()
    if response.status == 404:
        return None
    if response.status != 200:
        raise EngineError(f"{path} answered {response.status} {response.reason}")
    return parse_inspect(answer)


def _labels(name: str, image: str) -> dict[str, str]:
    return {key: files.plain(value) for key, value in (("container", name), ("image", image)) if value}


def _uses(engine: str, wanted: Mapping[str, Container]) -> bool:
    return any(container.runtime == engine for container in wanted.values())
