"""What `warpmeter size` prints."""

from typing import Any, Final

from warpmeter.cli import common
from warpmeter.quantity import quantity
from warpmeter.sizing import CONSTANTS, Figure, Fleet, Flow, Size

HOUR_S: Final = 3600


def show(fleet: Fleet, explain: bool, as_json: bool) -> None:
    """Tables, or one JSON document."""
    size = Size(fleet)
    if as_json:
        common.print_json(_document(size, explain))
        return
    common.print_table("topics", ("topic", "messages/s", "rows/s", "on the bus"), [_flow(each) for each in size.flows])
    common.print_table("tables, one replica, when full", ("tables", "kept", "bytes"), _tables(size))
    columns = ("what", "how much", "of") if not explain else ("what", "how much", "of", "formula", "with")
    common.print_table("", columns, [_figure(each, explain) for each in size.figures])
    if explain:
        rows = [(c.name, f"{c.value:g}", c.unit, c.meaning, c.kind, c.source) for c in CONSTANTS.values()]
        common.print_table("constants", ("constant", "value", "unit", "meaning", "how known", "where from"), rows)


def _document(size: Size, explain: bool) -> dict[str, Any]:
    figures = [
        each if explain else {key: getattr(each, key) for key in ("name", "value", "unit")} for each in size.figures
    ]
    found = {"fleet": size.fleet, "figures": figures, "topics": size.flows, "tables": size.groups}
    return found | ({"constants": list(CONSTANTS.values())} if explain else {})


def _flow(flow: Flow) -> tuple[str, ...]:
    bus = quantity(flow.bus_bytes_per_s, "B/s")
    return flow.topic, number(flow.messages_per_s), number(flow.rows_per_s), bus


def _tables(size: Size) -> list[tuple[str, ...]]:
    kept = [(each.tables, f"{each.days} d", quantity(each.bytes, "B")) for each in size.groups]
    return [*kept, ("all", "", quantity(size.store_bytes, "B"))]


def number(value: float) -> str:
    """Without what nobody measured: three digits, or whole."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def shown(figure: Figure) -> tuple[str, str]:
    """Its value and its unit, as people read them."""
    head, _, rest = figure.unit.partition(" ")
    if head in ("B", "B/s"):
        return quantity(figure.value, head), rest
    if figure.unit == "s":
        return f"{figure.value / HOUR_S:.3g}", "hours"
    return number(figure.value), figure.unit


def _figure(figure: Figure, explain: bool) -> tuple[str, ...]:
    return (figure.name, *shown(figure), *((figure.formula, ", ".join(figure.constants)) if explain else ()))
