"""The consumer that fills the store."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ingest:
    """The consumer. Batches close at `batch_bytes`, `batch_rows` or `batch_age_s`, whichever is first.

    `read_out`: read the topics to their end before stopping, for a broker whose log ends with it.
    """

    group: str = ""
    topics: tuple[str, ...] = ()
    batch_bytes: int = 24 << 20
    batch_rows: int = 200_000
    batch_age_s: float = 5.0
    budget_bytes: int = 64 << 20
    session_timeout_s: float = 45.0
    settle_after_s: float = 5.0
    ledger_dir: Path | None = None
    reject_window: int = 1000
    reject_share: float = 0.05
    read_out: bool = False
