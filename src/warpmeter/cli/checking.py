"""`warpmeter check`: what was compared, and what does not add up, for a person or a program."""

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.text import Text

from warpmeter.cli import common
from warpmeter.consumers.audit.counts import Compared
from warpmeter.consumers.audit.run import Line, Report, audit
from warpmeter.settings import Settings
from warpmeter.terminal import printable

COLUMNS = ("partition", "rows", "spans", "stored to", "end", "unread", "refused", "lost", "missing", "doubled")


def run(settings: Settings, since: float) -> Report:
    """The audit of what landed since a time (seconds since the epoch); a terminal sees what it is at."""
    with common.err.status("asking the broker") as status:  # nothing where no terminal is
        return audit(settings, since, told=status.update)


def show(found: Report, as_json: bool) -> None:
    """Print it: one JSON document, or tables, the findings last."""
    if as_json:
        common.print_json(found)
        return
    _table("offsets", COLUMNS, [_line(line) for line in found.partitions if line.present and _holds(line)])
    _earlier([line for line in found.partitions if not line.present])
    _table("counts by day", ("table", "against", "days", "adds up"), _counts(found.tables))
    for why in found.skipped:
        common.err.print(f"[yellow]![/] not compared: {escape(printable(why))}", highlight=False, soft_wrap=True)
    if found.findings:
        rows = [(common.coloured("failed"), each.kind, each.where, each.seen, each.remedy) for each in found.findings]
        common.print_table("does not add up", ("", "what", "where", "seen", "what to do"), rows)
    elif not found.skipped:
        common.out.print("everything adds up", highlight=False)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        common.print_table(title, columns, rows)


def _holds(line: Line) -> bool:
    return bool(line.end or line.spans)


def _line(line: Line) -> Sequence[object]:
    where = f"{line.topic}[{line.partition}]"
    lost = (line.refused, line.told, line.missing, line.doubled)
    return where, line.rows, line.spans, line.stored_to, line.end, line.unread, *lost


def _earlier(lines: Sequence[Line]) -> None:
    """Topics of the same name that are no more, all partitions and lives of one together."""
    lives = {topic: len({line.life for line in lines if line.topic == topic}) for topic in {x.topic for x in lines}}
    sums: dict[str, Counter[str]] = {topic: Counter() for topic in lives}
    for line in lines:
        sums[line.topic].update(
            rows=line.rows, spans=line.spans, refused=line.refused, lost=line.told, missing=line.missing,
            doubled=line.doubled,
        )  # fmt: skip
    names = ("rows", "spans", "refused", "lost", "missing", "doubled")
    rows = [(topic, lives[topic], *(sums[topic][name] for name in names)) for topic in sorted(lives)]
    _table("topics of these names that are no more", ("topic", "lives", *names), rows)


def _counts(tables: Sequence[Compared]) -> list[Sequence[object]]:
    """One row a pair of tables, whatever figures of them were compared."""
    pairs: dict[tuple[str, str], list[Compared]] = {}
    for each in tables:
        if each.days:
            pairs.setdefault((each.table, each.against), []).append(each)
    return [(*pair, _days(found[0]), _verdict(found)) for pair, found in pairs.items()]


def _days(each: Compared) -> str:
    return f"{len(each.days)}" + (f" ({each.again} stored again, left out)" if each.again else "")


def _verdict(found: Sequence[Compared]) -> Text:
    return common.coloured("failed" if any(each.wrong for each in found) else "ok")
