"""`python -m warpmeter.simulate FD --hosts 64 …`: the simulator as a part that `up --demo` starts."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from warpmeter import launch
from warpmeter.registry import RegistryError
from warpmeter.topics import TopicsError

try:
    from warpmeter.simulate.fleet import Fleet
    from warpmeter.simulate.run import Pace, simulate
except ModuleNotFoundError as missing:
    raise SystemExit(f"warpmeter simulate needs {missing.name}: pip install 'warpmeter[simulate]'") from missing

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `6h` or `1d` in seconds; raises ValueError for anything else."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        raise ValueError(f"{text!r} is no duration; write 90s, 15m, 6h or 1d") from None
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return value


def parse(arguments: Sequence[str]) -> tuple[Fleet, Pace, bool]:
    """The command line as typed values, and whether it is a dry run; exits with usage on a mistake."""
    parser = argparse.ArgumentParser(prog="warpmeter simulate", description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--interval", type=seconds, default=1.0, help="what one sample stands for, e.g. 5s")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--faults-per-hour", type=float, default=6.0)
    parser.add_argument("--backfill", type=seconds, default=0.0, help="history to send first, e.g. 6h")
    parser.add_argument("--speedup", type=float, default=0.0, help="pace of the history; 0: as fast as it goes")
    parser.add_argument("--max-rate", type=float, default=0.0, help="rows a second at most")
    parser.add_argument("--duration", type=seconds, help="how long to go on; 0: the history alone")
    parser.add_argument("--resume", type=Path, help="file that remembers what was sent, so that nothing is sent twice")
    parser.add_argument("--dry-run", action="store_true", help="send nothing; show the speed")
    given = parser.parse_args(arguments)
    try:
        fleet = Fleet(given.hosts, given.gpus, given.interval, given.seed, given.faults_per_hour)
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
