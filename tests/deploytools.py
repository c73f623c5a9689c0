"""Programs that judge what is in deploy/, built once of Go modules: helm, kubeconform, docker compose; and schemas.

`python -m tests.deploytools` makes them ahead of the tests, in a cache folder outside the clone; where they are missing
the tests that want them are skipped with a line.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.brokers.maven import cache_folder

KUBERNETES: Final = "1.37.2"
BUILD_S: Final = 3600
CRDS: Final = {
    "github.com/kedacore/keda/v2@v2.21.0": ("config/crd/bases/keda.sh_scaledobjects.yaml",),
    "github.com/prometheus-operator/prometheus-operator@v0.94.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}
"""Where the schemas of other kinds come from that the chart uses."""
INSTALL: Final = "`python -m tests.deploytools` builds it (needs Go; Debian: apt-get install golang-go)"


@dataclass(frozen=True)
class Tool:
    """A program of a Go module, as its own go.mod and go.sum pin what it is built of."""

    name: str
    module: str
    version: str
    package: str

    @property
    def path(self) -> Path:
        """Where it is, once it was built."""
        return cache_folder() / "tools" / f"{self.name}-{self.version}"


HELM: Final = Tool("helm", "helm.sh/helm/v3", "v3.22.0", "./cmd/helm")
KUBECONFORM: Final = Tool("kubeconform", "github.com/yannh/kubeconform", "v0.8.0", "./cmd/kubeconform")
COMPOSE: Final = Tool("docker-compose", "github.com/docker/compose/v2", "v2.40.3", "./cmd")
TOOLS: Final = (KUBECONFORM, HELM, COMPOSE)


def found(tool: Tool) -> str:
    """Its path; skips where it was not built."""
    if not tool.path.is_file():
        pytest.skip(f"no {tool.name} {tool.version}: {INSTALL}")
    return str(tool.path)


def schemas() -> Path:
    """The folder of JSON schemas for kubeconform; skips where it was not made."""
    folder = _schema_folder()
    if not folder.is_dir():
        pytest.skip(f"no schemas of Kubernetes {KUBERNETES}: {INSTALL}")
    return folder


def make() -> None:
    """All of it, where it is missing; raises OSError and CalledProcessError."""
    folder = cache_folder() / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        for tool in TOOLS:
            if not tool.path.is_file():
                _build(tool)
        if not _schema_folder().is_dir():
            _make_schemas(_schema_folder())


def _schema_folder() -> Path:
    return cache_folder() / "tools" / f"kubernetes-{KUBERNETES}-schemas-2"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _go() -> str:
    path = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if path is None:
        raise FileNotFoundError("no Go here (Debian: apt-get install golang-go)")
    return path


def _fetched(module: str) -> Path:
    """The module's folder in Go's own cache, which checks its sum."""
    line = [_go(), "mod", "download", "-json", module]
    done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=BUILD_S, cwd=tempfile.gettempdir())
    return Path(json.loads(done.stdout)["Dir"])


def _build(tool: Tool) -> None:
    """In a copy of its module: `go install` takes no module whose go.mod excludes anything."""
    with tempfile.TemporaryDirectory(prefix="warpmeter-build-") as scratch:
        source = Path(scratch) / "source"
        shutil.copytree(_fetched(f"{tool.module}@{tool.version}"), source)
        subprocess.run(["chmod", "-R", "u+w", source], check=True)
        made = tool.path.with_suffix(".new")
        line = [_go(), "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), tool.package]
        subprocess.run(line, check=True, cwd=source, env={**os.environ, "CGO_ENABLED": "0"}, timeout=BUILD_S)
        made.rename(tool.path)


def _make_schemas(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="schemas-") as scratch:
        into = Path(scratch) / "all"
        into.mkdir()
        specification = _fetched(f"k8s.io/kubernetes@v{KUBERNETES}") / "api" / "openapi-spec" / "swagger.json"
        for name, schema in _kinds(json.loads(specification.read_text())["definitions"]):
            (into / name).write_text(json.dumps(schema))
        for module, files in CRDS.items():
            base = _fetched(module)
            for file in files:
                for name, schema in _custom(yaml.safe_load((base / file).read_text())):
                    (into / name).write_text(json.dumps(schema))
        into.rename(folder)


def _kinds(definitions: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each kind's file name, as kubeconform asks for it, and its schema with all that it refers to."""
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            needed: dict[str, Any] = {}
            _gather(name, definitions, needed)
            schema = {"$ref": f"#/definitions/{name}", "definitions": needed}
            yield _file(kind["group"], kind["version"], kind["kind"]), schema


def _gather(name: str, definitions: dict[str, Any], needed: dict[str, Any]) -> None:
    if name in needed:
        return
    needed[name] = _strict(definitions[name])
    for reference in _references(definitions[name]):
        _gather(reference.removeprefix("#/definitions/"), definitions, needed)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)


def _strict(node: Any) -> Any:
    """The schema with unknown fields refused, and what the API takes as number or text taken as either."""
    if isinstance(node, list):
        return [_strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "int-or-string" or node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    strict = {key: _strict(value) for key, value in node.items() if not (key == "format" and isinstance(value, str))}
    free = "additionalProperties" in node or node.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(node.get("properties"), dict) and not free:
        strict["additionalProperties"] = False
    return strict


def _custom(crd: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for version in crd["spec"]["versions"]:
        schema = _strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        yield _file(crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"]), schema


def _file(group: str, version: str, kind: str) -> str:
    return f"{group or version}-{version}-{kind}.json".lower()  # kubeconform names the core's group by its version


TEMPLATE: Final = "{{.Group}}-{{.ResourceAPIVersion}}-{{.ResourceKind}}.json"
"""How kubeconform finds a kind's file, below `schemas()`."""


if __name__ == "__main__":
    make()
    for tool in TOOLS:
        print(tool.path)
    print(_schema_folder())
