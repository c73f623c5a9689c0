"""The report as text: complete, self-contained, and nothing in it that a trace may break."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.pagetraces import HOSTILE, training
from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.capture import capture
from warpmeter.analysis.links import links
from warpmeter.analysis.page import render
from warpmeter.analysis.page.flames import flame
from warpmeter.analysis.read import read
from warpmeter.analysis.stacks import SMALLER, stacks
from warpmeter.cli.analyzing import AnalyzeError, Wish, run

EMPTY = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta"}


class Balanced(HTMLParser):
    """Fails where an element is not closed; gathers what the page would fetch, and its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One more is open."""
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Closed at once."""

    def handle_endtag(self, tag: str) -> None:
        """What was opened last must be it."""
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """The text of a heading."""
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def parsed(text: str) -> Balanced:
    page = Balanced()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


def report(*files: Path) -> str:
    return render(capture([str(file) for file in files]))


def test_it_needs_nothing_else(tmp_path: Path) -> None:
    text = report(training(rank=0).write(tmp_path / "rank0.json"))
    assert set(parsed(text).fetched) <= {"data:,"}
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(", text)


def test_every_part_is_there(tmp_path: Path) -> None:
    headings = parsed(report(training(rank=0).write(tmp_path / "rank0.json"))).headings
    for part in ("Findings", "Time of the GPU", "Overview", "Steps", "Kernels", "Operators", "Streams", "Stacks"):
        assert any(heading.startswith(part) for heading in headings), part
    for part in ("Products", "Critical path", "Memory operations", "Launches", "Memory of GPU 0"):
        assert any(heading.startswith(part) for heading in headings), part


def test_several_ranks_come_with_what_holds_of_all(tmp_path: Path) -> None:
    text = report(*[training(rank=rank).write(tmp_path / f"rank{rank}.json") for rank in range(2)])
    page = parsed(text)
    assert {"Ranks", "Collectives", "Balance"} <= set(page.headings)
    assert page.headings.count("Overview") == 2


def test_names_out_of_a_trace_stay_text(tmp_path: Path) -> None:
    builder = training(rank=0, name=HOSTILE)
    builder.annotation(HOSTILE, 0, 500)
    builder.name(thread=0, text=HOSTILE)
    text = report(builder.write(tmp_path / "rank0.json"))
    parsed(text)
    assert "<img src=x" not in text
    assert "49" not in text.split("&#34;&amp;", 1)[1][:10]
    embedded = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
    assert HOSTILE in msgspec.json.decode(embedded[0])["t"]


def test_no_name_turns_the_text_around_it_or_holds_what_html_does_not_allow(tmp_path: Path) -> None:
    text = report(training(rank=0, name="a\0b\x1b[31mc\u202ed").write(tmp_path / "rank0.json"))

    assert "a\ufffdb\ufffd[31mc\ufffdd" in text
    assert not {"\0", "\x1b", "\u202e"} & set(text)


@pytest.mark.long
def test_many_ranks_make_no_endless_page(tmp_path: Path) -> None:
    found = capture([str(training(rank=0).write(tmp_path / "rank0.json"))])
    kernels = [replace(found.ranks[0].kernels[0], name=f"k{i}", short_name=f"k{i}") for i in range(300)]
    many = replace(found, ranks=[replace(found.ranks[0], kernels=kernels)] * 64)
    text = render(many)
    assert len(text) < 64 * 150_000
    assert text.count("The first 40 of 300") == 64


def test_the_command_writes_it(tmp_path: Path) -> None:
    trace, page = training(rank=0).write(tmp_path / "rank0.json"), tmp_path / "report.html"
    assert run(Wish((str(trace),), html=page)) == 0
    assert "Findings" in parsed(page.read_text("utf-8")).headings
    with pytest.raises(AnalyzeError, match="cannot be written"):
        run(Wish((str(trace),), html=tmp_path / "nowhere" / "report.html"))


@pytest.mark.parametrize("what", ["nothing", "host alone", "gpu alone"])
def test_poor_traces(tmp_path: Path, what: str) -> None:
    builder = TraceBuilder()
    builder.operator("aten::empty", 0, 0 if what == "nothing" else 10)
    if what == "gpu alone":
        builder.events.clear()
        builder.kernel("k", 0, 1)
    parsed(report(builder.write(tmp_path / "one.json")))


def test_a_flame_of_few_nodes_loses_no_time() -> None:
    trace = training(rank=0).build()
    whole = stacks(trace, links(trace))
    cut = flame(whole, 6)
    assert (sum(cut.c), sum(cut.g)) == (sum(whole.cpu_ns), sum(whole.gpu_ns))
    assert sum(cut.t[name] != SMALLER for name in cut.n) <= 6
    assert all(-1 <= parent < node for node, parent in enumerate(cut.p))
    assert flame(whole, 10_000).n == whole.name


@needs_traces
@pytest.mark.parametrize("path", [pytest.param(p, id=i) for i, p, _ in references()])
def test_real_traces(path: Any) -> None:
    trace = read(str(path))
    page = parsed(report(path))
    assert ("Time of the GPU" in page.headings) == bool(len(trace.gpu))
    assert "Steps" in page.headings
