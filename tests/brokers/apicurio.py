"""Apicurio Registry, a real Schema Registry with Confluent's API, from Maven Central: a Java process on loopback."""

import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from tests.brokers import maven
from tests.brokers.maven import KafkaMissingError
from tests.brokers.process import free_ports, spawn, tail
from tests.wait import until

VERSION: Final = "3.0.9"
RUNNER: Final = f"apicurio-registry-app-{VERSION}-runner.jar"
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def jars() -> Path:
    """The folder of its jars, fetched first where missing (109 MB); raises KafkaMissingError."""
    folder = maven.cache_folder() / f"apicurio-{VERSION}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with maven.locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        maven.copy(f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all", Path(scratch))
        whole = Path(scratch) / "whole"
        with tarfile.open(Path(scratch) / f"apicurio-registry-app-{VERSION}-all.tar.gz") as archive:
            archive.extractall(whole, filter="data")
        whole.rename(folder)


class Apicurio:
    """A registry in memory: `url` is what `kafka.schema_registry_url` is to be, `tls_url` that where it has TLS."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None = None) -> None:
        """Start it and wait; raises KafkaMissingError, AssertionError."""
        found, java = jars(), maven.java()
        folder.mkdir(parents=True, exist_ok=True)
        self._log, (plain, secure) = folder / "apicurio.log", free_ports(2)
        options = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": plain}
        self.url = f"http://127.0.0.1:{plain}/apis/ccompat/v7"
        self.tls_url = f"https://127.0.0.1:{secure}/apis/ccompat/v7"
        if certificate:
            options |= {
                "quarkus.http.ssl-port": secure,
                "quarkus.http.ssl.certificate.files": str(certificate[0]),
                "quarkus.http.ssl.certificate.key-files": str(certificate[1]),
            }
        given = [f"-D{key}={value}" for key, value in options.items()]
        classes = f"{found / RUNNER}:{found / 'lib'}/*"
        line = [java, *JVM, *given, "-cp", classes, "io.quarkus.runner.GeneratedMain"]
        self._process: subprocess.Popen[bytes] = spawn(line, self._log)
        until(lambda: self._process.poll() is not None or self._answers(), "the registry to be up", 240)
        assert self._process.poll() is None, tail(self._log)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """End it; idempotent."""
        self._process.kill()
        self._process.wait()


__all__ = ["Apicurio", "KafkaMissingError", "jars"]
