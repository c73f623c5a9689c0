"""What is said of a job: plain values, nanoseconds; None is what the traces do not tell."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RankClock:
    """A rank's clock against that of rank `reference`: how far it is ahead, and what that may be wrong by.

    `drift_ppb` is how much faster it runs, in billionths. `through` is the rank with which it was compared, by
    `matched` collectives; a reference has none. A rank that could be compared with no other is its own reference.
    """

    rank: int
    reference: int
    offset_ns: int
    drift_ppb: int
    uncertainty_ns: int
    matched: int
    through: int | None


@dataclass(frozen=True)
class CollectiveStats:
    """All collectives of one kind, type and size in one group, over the ranks that were traced.

    `bytes` is the message as nccl-tests count it. `transfer_*` is how long they take when all are there; `wait_ns`
    what the ranks together spent in them before that; `total_ns` is both. Skew is from the first arrival to the last:
    None where it is not above what the clocks may be wrong by. Bandwidths are of the median transfer, and of the
    fastest tenth; `link_share` is the latter's share of what the links carry. `last_rank` came last most often
    (`last_share` of the times that there was a last one).
    """

    group: str
    ranks: list[int]
    kind: str
    dtype: str
    bytes: int | None
    count: int
    total_ns: int
    wait_ns: int
    transfer_min_ns: int
    transfer_p50_ns: int
    transfer_max_ns: int
    skew_p50_ns: int | None
    skew_p95_ns: int | None
    skew_max_ns: int | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    bus_best_bytes_per_s: float | None
    link_share: float | None
    last_rank: int | None
    last_share: float | None


@dataclass(frozen=True)
class Unmatched:
    """Collectives of a rank in a group that were found on no other rank."""

    rank: int
    collectives: int
    unmatched: int


@dataclass(frozen=True)
class GroupReport:
    """One process group, or one pair of sender and receiver in it (`source` and `target`).

    `ranks` are its members as the traces tell them, `traced` those whose traces are here, `missing` the others.
    `collectives` were matched between at least two ranks. `wait_share` is the share of all the ranks' time in them
    that was waiting for the last one.
    """

    name: str
    description: str
    source: int | None
    target: int | None
    size: int
    ranks: list[int]
    traced: list[int]
    missing: list[int]
    collectives: int
    total_ns: int
    wait_ns: int
    wait_share: float | None
    uncertainty_ns: int
    link_bytes_per_s: float | None
    unmatched: list[Unmatched]


@dataclass(frozen=True)
class SkewedCollective:
    """One collective that ranks came to at different times. `start_ns`: the first arrival, by the reference."""

    group: str
    kind: str
    bytes: int | None
    start_ns: int
    skew_ns: int
    wait_ns: int
    last_rank: int
    cause: str | None


@dataclass(frozen=True)
class Straggler:
    """A rank that came surely later than the median of the others to `late` of `of` collectives, to `last` as the last.

    `late_ns` is how much later, over the former; `cost_ns`, over the latter, how much later than the last but one, what
    the job gains if this rank alone keeps up. `causes` divides `late_ns`: what it did longer than the median of the
    others since they last met (below zero: shorter); `cause` is the greatest, `evidence` says of what kind in words.
    `waited_ns` is what it itself waited for others.
    """

    rank: int
    last: int
    late: int
    of: int
    late_ns: int
    cost_ns: int
    worst_ns: int
    waited_ns: int
    cause: str | None
    causes: dict[str, int]
    evidence: str


@dataclass(frozen=True)
class RankLoad:
    """One rank's whole trace, for comparison. `waited_ns` is what it waited for others in collectives."""

    rank: int
    file: str
    host: str | None
    device: str
    span_ns: int
    busy_ns: int
    compute_ns: int
    comm_ns: int
    exposed_comm_ns: int
    mem_ns: int
    idle_ns: int
    input_ns: int
    kernels: int
    steps: int
    step_ns: int | None
    collectives: int
    waited_ns: int


@dataclass(frozen=True)
class Balance:
    """One figure of `RankLoad` over the ranks. `imbalance` is the greatest over the mean, less 1; None for all 0."""

    figure: str
    mean: float
    least: int
    least_rank: int
    most: int
    most_rank: int
    imbalance: float | None


@dataclass(frozen=True)
class JobReport:
    """A job of several ranks."""

    world_size: int | None
    ranks: list[int]
    missing_ranks: list[int]
    reference_rank: int
    clocks: list[RankClock]
    groups: list[GroupReport]
    collectives: list[CollectiveStats]
    skewed: list[SkewedCollective]
    stragglers: list[Straggler]
    loads: list[RankLoad]
    balance: list[Balance]
    notes: list[str]
