"""`python -m warpmeter.producers FD [--once] [--json] [--dry-run]`: the host agent, started by `warpmeter agent`."""

import dataclasses
import sys

# structlog loads rich when it is installed, for tracebacks that the agent does not print: 5 MiB of its 60.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]

from confluent_kafka import KafkaException  # noqa: E402

from warpmeter import launch, log  # noqa: E402
from warpmeter.producers import agent  # noqa: E402
from warpmeter.producers.out import OutputError  # noqa: E402
from warpmeter.producers.spool import SpoolTakenError  # noqa: E402
from warpmeter.registry import RegistryError  # noqa: E402

EXIT_HALTED = 78  # EX_CONFIG of sysexits.h: a restart does not help
FLAGS = {"--once": "once", "--json": "as_json", "--dry-run": "dry_run"}


def main(arguments: list[str]) -> int:
    """Run the agent with the settings behind the descriptor; returns the exit status."""
    settings, flags = launch.received(arguments)
    if unknown := [flag for flag in flags if flag not in FLAGS]:
        raise SystemExit(f"unknown option {unknown[0]}; there are {', '.join(FLAGS)}")
    # One tick says how each source fares on standard output; the log would say it again.
    level = dataclasses.replace(settings.log, level="error") if "--once" in flags else settings.log
    logger = log.setup(level, "agent")
    try:
        return agent.run(settings, agent.Options(**{FLAGS[flag]: True for flag in flags}))
    except (SpoolTakenError, OutputError) as error:
        logger.error("cannot start", why=str(error))
        return EXIT_HALTED
    except KafkaException as error:
        logger.error("kafka_refused_options", error=str(error.args[0]), next="correct [kafka] in the configuration")
        return 2
    except RegistryError as error:
        logger.error("registry_refused", error=str(error), next="correct kafka.schema_registry_url")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
