"""What a run says: progress while it goes, then tables or one JSON document."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.crash.run import Outcome
from warpmeter.cli.common import print_json, print_table


class Progress:
    """What goes on now: on a terminal (stderr) one line that changes, and in any case line by line in a file."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._said = ""

    def __call__(self, text: str) -> None:
        if text == self._said:
            return
        self._said = text
        with self._log.open("a") as file:
            file.write(f"{time.time():.2f} {text}\n")
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{time.monotonic() - self._began:6.0f} s  {text[:150]}")
            sys.stderr.flush()

    def done(self) -> None:
        """Leave the line."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")


def again(outcome: Outcome) -> str:
    """How to run the same faults again."""
    return f"make crash MINUTES={outcome.minutes:g} SEED={outcome.seed}"


def verdict(outcome: Outcome) -> str:
    """One line."""
    figures, run = outcome.comparison.figures, f"{len(outcome.faults)} faults, seed {outcome.seed}"
    if outcome.findings:
        return f"{run}: {len(outcome.findings)} differences"
    share = figures["landed under faults, share"]
    rows = f"{figures['rows acknowledged']} rows, none lost, none twice"
    return f"{run}: {rows}, {share:.1%} of them landed while faults went on"


def as_json(outcome: Outcome, kept: Path | None) -> dict[str, Any]:
    """The whole outcome."""
    return {
        "seed": outcome.seed,
        "minutes": outcome.minutes,
        "took_s": outcome.took_s,
        "faults": len(outcome.faults),
        "faults_by_kind": outcome.kinds,
        "ended_by_themselves": outcome.ended,
        "figures": outcome.comparison.figures,
        "findings": outcome.findings,
        "folder": kept,
        "again": again(outcome),
    }


def show(outcome: Outcome, kept: Path | None, as_document: bool) -> None:
    """To stdout."""
    if as_document:
        print_json(as_json(outcome, kept))
        return
    print_table("Faults", ["kind", "count"], list(outcome.kinds.items()))
    print_table("Figures", ["what", "value"], list(outcome.comparison.figures.items()))
    if outcome.ended:
        ways = Counter((item.who.rstrip("0123456789-"), item.code, _last(item.words)) for item in outcome.ended)
        rows = [(*way, count) for way, count in ways.most_common()]
        print_table("Ended by themselves, and started again", ["who", "status", "last words", "count"], rows)
    for finding in outcome.findings:
        print(f"DIFFERENCE {finding}")
    print(verdict(outcome))
    print(f"again: {again(outcome)}" + (f"\nlogs and tables: {kept}" if kept else ""))


def _last(words: str) -> str:
    return (words.splitlines() or [""])[-1][:160]
