"""Write the dashboards: `python -m deploy.grafana.source [--check]` (`make docs`)."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.grafana.source.host import HOST_BOARD
from deploy.grafana.source.ingest import INGEST
from deploy.grafana.source.job import JOB_BOARD
from deploy.grafana.source.model import written
from deploy.grafana.source.overview import OVERVIEW
from deploy.grafana.source.processes import PROCESSES
from deploy.grafana.source.profiling import PROFILING

INTO: Final = Path(__file__).resolve().parents[1] / "dashboards"
BOARDS: Final = (OVERVIEW, HOST_BOARD, JOB_BOARD, PROFILING, INGEST, PROCESSES)


def files() -> Mapping[Path, str]:
    """Every file, and what is to be in it."""
    return {
        INTO / f"{board.name}.json": json.dumps(written(board), indent=1, ensure_ascii=False) + "\n" for board in BOARDS
    }


def main() -> None:
    """Write them, or with `--check` fail where one is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is not current")
    if not parser.parse_args().check:
        for path, text in files().items():
            path.write_text(text)
        return
    stale = [path.name for path, text in files().items() if not path.exists() or path.read_text() != text]
    if stale:
        sys.exit(f"not current: {', '.join(stale)}; run `make docs` and commit the result")


if __name__ == "__main__":
    main()
