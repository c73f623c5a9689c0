"""`python -m warpmeter.simulate FD --hosts 64 …`: the simulator as a part that `up --demo` starts."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import launch
from warpmeter.registry import RegistryError
from warpmeter.topics import TopicsError

try:
    from warpmeter.simulate.fleet import Fleet
    from warpmeter.simulate.run import Pace, simulate
except ModuleNotFoundError as missing:
    raise SystemExit(f"warpmeter simulate needs {missing.name}: pip install 'warpmeter[simulate]'") from missing

DESCRIPTION: Final = (
    "Publish a fleet that does not exist, as its agents would: jobs over several hosts, phases, idle GPUs, failures. "
    "Times are 90s, 15m, 6h or 1d."
)
UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `6h` or `1d` in seconds; raises ArgumentTypeError for anything else."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 15m, 6h or 1d")
    return value


def parse(arguments: Sequence[str]) -> tuple[Fleet, Pace, bool]:
    """The command line as typed values, and whether it is a dry run; exits with usage on a mistake."""
    parser = argparse.ArgumentParser(prog="warpmeter simulate", description=DESCRIPTION)
    add = parser.add_argument
    add("--hosts", type=int, default=64, metavar="N", help="default 64")
    add("--gpus", type=int, default=8, metavar="N", help="GPUs a host, default 8")
    add("--interval", type=seconds, default=1.0, metavar="TIME", help="what one sample stands for, default 1s")
    add("--seed", type=int, default=7, metavar="N", help="another seed is another fleet")
    add("--faults-per-hour", type=float, default=6.0, metavar="N", help="over the whole fleet, default 6")
    add("--healthy", action="store_true", help="nothing goes wrong, and no job leaves idle what it holds")
    add("--backfill", type=seconds, default=0.0, metavar="TIME", help="history to send first, e.g. 6h")
    add("--speedup", type=float, default=0.0, metavar="X", help="pace of the history; 0, the default, is full speed")
    add("--max-rate", type=float, default=0.0, metavar="ROWS", help="rows a second at most, of all topics")
    add("--duration", type=seconds, metavar="TIME", help="how long to go on; 0 is the history alone")
    add("--resume", type=Path, metavar="FILE", help="remembers what was sent, so that nothing is sent twice")
    add("--dry-run", action="store_true", help="send nothing; show the speed")
    given = parser.parse_args(arguments)
    try:
        fleet = Fleet(given.hosts, given.gpus, given.interval, given.seed, given.faults_per_hour, healthy=given.healthy)
        pace = Pace(given.backfill, given.speedup, given.max_rate, given.duration, given.resume)
    except ValueError as error:
        parser.error(str(error))
    return fleet, pace, given.dry_run


def main() -> int:
    """Returns the exit status."""
    settings, arguments = launch.received(sys.argv[1:])
    fleet, pace, dry_run = parse(arguments)
    try:
        return simulate(settings.kafka, fleet, pace, dry_run)
    except (TopicsError, RegistryError, KafkaException) as error:
        sys.stderr.write(f"warpmeter simulate: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
