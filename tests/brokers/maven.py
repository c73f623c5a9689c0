"""Apache Kafka's jars from Maven, fetched once into a cache folder outside the repo; offline afterwards."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.4.0"
SLF4J_VERSION: Final = "1.7.36"
"""The slf4j-api that this Kafka depends on; slf4j-simple writes its warnings to the node's log."""
JAVA_VERSION: Final = 17
"""What Kafka's brokers need since 4.0 (https://kafka.apache.org/documentation/#java)."""

FETCH_TIMEOUT_S: Final = 600

POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>warpmeter</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>connect-runtime</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>{SLF4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

INSTALL: Final = f"Apache Kafka needs Java {JAVA_VERSION} or newer and, once, Maven"


class KafkaMissingError(RuntimeError):
    """This machine cannot run Apache Kafka; the message is one line and says how to change that."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`$WARPMETER_CACHE`, else `$XDG_CACHE_HOME/warpmeter`, else `~/.cache/warpmeter`."""
    environ = os.environ if environ is None else environ
    own, common = environ.get("WARPMETER_CACHE"), environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own)
    return Path(common or Path.home() / ".cache") / "warpmeter"


def java() -> str:
    """The path of a Java that is new enough; raises KafkaMissingError."""
    path = shutil.which("java")
    if path is None:
        raise KafkaMissingError(f"{INSTALL}: no java here (Debian: apt-get install openjdk-17-jre-headless maven)")
    told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=120, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < JAVA_VERSION:
        first = (told.splitlines() or ["nothing"])[0]
        raise KafkaMissingError(f"{INSTALL}: {path} says {first} (Debian: apt-get install openjdk-17-jre-headless)")
    return path


def jars() -> Path:
    """The folder of Kafka's jars, fetched first where missing; safe for several processes; raises KafkaMissingError."""
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}-and-tools"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            _fetch(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    """Fill a folder beside and rename it, so that a broken fetch leaves nothing that looks whole."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        pom, libs = Path(scratch) / "pom.xml", Path(scratch) / "libs"
        pom.write_text(POM)
        _run_maven(pom, libs)
        libs.rename(folder)


def _run_maven(pom: Path, libs: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    _run(["--file", str(pom), *goal], f"Kafka {KAFKA_VERSION}")


def copy(artifact: str, folder: Path) -> None:
    """One artifact, as group:name:version:packaging:classifier, into a folder; raises KafkaMissingError."""
    _run(["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], artifact)


def _run(arguments: list[str], what: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissingError(f"{INSTALL}: no mvn here (Debian: apt-get install maven)")
    line = [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", *arguments]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise KafkaMissingError(f"Maven did not fetch {what} in {FETCH_TIMEOUT_S} s") from error
    if done.returncode != 0:
        said = next((text for text in done.stdout.splitlines() if "ERROR" in text), "no word")
        raise KafkaMissingError(f"Maven cannot fetch {what}; check its network or settings.xml: {said}")
