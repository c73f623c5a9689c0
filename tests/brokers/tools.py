"""Apache Kafka's own command-line tools, from the jars that the brokers of the tests run on."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.brokers import maven

TIMEOUT_S: Final = 180.0
JVM: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOG: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


def consumer_groups(bootstrap_servers: str, *arguments: str) -> str:
    """What `kafka-consumer-groups.sh` prints. Raises KafkaMissingError."""
    line = [*_consumer_groups(), "--bootstrap-server", bootstrap_servers, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.stdout + done.stderr


def _consumer_groups() -> list[str]:
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return [str(maven.java()), *JVM, LOG, "-cp", f"{maven.jars()}/*", tool]


def pasted(command: str, folder: Path) -> str:
    """What a shell in `folder` prints for a command that uses `kafka-consumer-groups.sh`; it must succeed."""
    script = folder / "bin" / "kafka-consumer-groups.sh"
    script.parent.mkdir(exist_ok=True)
    line = " ".join(f"'{part}'" for part in _consumer_groups())
    script.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    script.chmod(0o755)
    env = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
