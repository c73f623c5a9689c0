"""Real brokers for tests and benchmarks, as child processes on loopback: Tansu, and Apache Kafka of 1 or 3 nodes.

with closing(KafkaCluster(folder, size=3)) as kafka:
    produce_to(kafka.bootstrap_servers)
    kafka.kill(1)
"""

from tests.brokers.apache import KafkaCluster, KafkaMissingError
from tests.brokers.broker import Broker
from tests.brokers.tansu import Tansu

__all__ = ["Broker", "KafkaCluster", "KafkaMissingError", "Tansu"]
