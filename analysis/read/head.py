"""What a trace says of its devices and its job, field by field: other tools write these by hand."""

from typing import Any, Final

from warpmeter.analysis.trace import Device, Distributed, ProcessGroup

MOST_RANKS: Final = 1 << 20
"""No job has more: what says so lies, and would have every rank that is missing named."""


def whole(value: Any, default: int) -> int:
    """A whole number as number or text; the default where it is none that int64 holds."""
    if isinstance(value, str) and len(value) < 32:
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) <= value < 2**63:
        return default
    return int(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)[:1000]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def devices(value: Any) -> list[Device]:
    """`deviceProperties`."""
    return [
        Device(
            id=whole(item.get("id"), place),
            name=_text(item.get("name")),
            memory_bytes=whole(item.get("totalGlobalMem"), 0),
            processors=whole(item.get("numSms"), 0),
            compute_capability=(whole(item.get("computeMajor"), 0), whole(item.get("computeMinor"), 0)),
        )
        for place, item in enumerate(_dicts(value))
    ]


def distributed(value: Any) -> Distributed | None:
    """`distributedInfo`; None where there is none."""
    if not isinstance(value, dict) or not value:
        return None
    return Distributed(
        backend=_text(value.get("backend")),
        rank=_up_to(MOST_RANKS - 1, whole(value.get("rank"), 0)),
        world_size=_up_to(MOST_RANKS, whole(value.get("world_size"), 1)),
        groups=tuple(_group(item) for item in _dicts(value.get("pg_config"))),
    )


def _up_to(most: int, value: int) -> int:
    """0, as if it were not told, for what cannot be."""
    return value if 0 <= value <= most else 0


def _group(item: dict[str, Any]) -> ProcessGroup:
    ranks = item.get("ranks")
    known = [whole(rank, -1) for rank in ranks] if isinstance(ranks, list) else []
    return ProcessGroup(
        name=_text(item.get("pg_name")),
        description=_text(item.get("pg_desc")),
        backend=_text(item.get("backend_config")),
        ranks=tuple(rank for rank in known if 0 <= rank < MOST_RANKS),
        size=whole(item.get("pg_size"), len(known)),
    )
