"""Apache Kafka's own command-line tools, from the jars that the brokers of the tests run on."""

import subprocess
from typing import Final

from tests.brokers import maven

TIMEOUT_S: Final = 60.0
JVM: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOG: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


def consumer_groups(bootstrap_servers: str, *arguments: str) -> str:
    """What `kafka-consumer-groups.sh` prints. Raises KafkaMissingError."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    line = [maven.java(), *JVM, LOG, "-cp", f"{maven.jars()}/*", tool, "--bootstrap-server", bootstrap_servers]
    done = subprocess.run([*line, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.stdout + done.stderr
