"""Random faults on three brokers, an engine and up to four consumers: nothing may be lost, and nothing be twice.

Exit codes: 0 when every number is once in its table and in every rollup, 1 when something differs, 2 for wrong usage.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from tests.brokers import KafkaMissingError
from tests.crash.report import Progress, show
from tests.crash.run import run


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults go on (default: 10)")
    parser.add_argument("--seed", type=int, default=None, help="which faults (default: a random one, which is printed)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and tables in any case")
    return parser.parse_args()


def _interrupted(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    given = arguments()
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    signal.signal(signal.SIGTERM, _interrupted)
    folder = Path(tempfile.mkdtemp(prefix=f"warpmeter-crash-{seed}-"))
    progress = Progress(folder / "faults.log")
    keep = True
    try:
        outcome = run(seed, given.minutes, folder, progress)
        keep = given.keep or bool(outcome.findings)
    except KafkaMissingError as missing:
        keep = False
        print(missing, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        keep = given.keep
        print(f"\ninterrupted; seed {seed}", file=sys.stderr)
        return 130
    finally:
        progress.done()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    show(outcome, folder if keep else None, given.json)
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
