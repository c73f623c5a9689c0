"""The report in a browser: it draws, it does what its controls say, it prints, and it runs nothing out of a trace."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chromium import Chromium, Page, chromium
from tests.pagetraces import HOSTILE, training
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis.capture import capture
from warpmeter.analysis.page import render

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def shown(browser: Chromium, folder: Path, *files: Path) -> Page:
    """The report of some traces, open in a tab."""
    report = folder / "report.html"
    report.write_text(render(capture([str(file) for file in files])), "utf-8")
    page = browser.page()
    page.open(report.as_uri())
    return page


def test_it_draws_and_its_controls_work(browser: Chromium, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, training(rank=0).write(tmp_path / "rank0.json"))
    boxes = "document.querySelectorAll('.flame .rows div').length"
    assert page.value(boxes) > 5
    assert page.value("document.querySelector('[data-weight=g]').className") == "on"
    page.value("[...document.querySelectorAll('.rows div')].find(d => d.title.startsWith('aten::mm')).click()")
    assert page.value("document.querySelector('[data-out]').hidden") is False
    assert page.value("document.querySelectorAll('.rows div.up').length") > 0
    page.value("document.querySelector('[data-weight=c]').click()")
    assert page.value("document.querySelector('[data-out]').hidden") is True
    page.value("document.querySelector('.flame input').value = 'aten'")
    page.value("document.querySelector('.flame input').dispatchEvent(new Event('input'))")
    assert page.value("document.querySelectorAll('.rows div.found').length") > 0
    assert page.errors == []


def test_tables_sort_by_number_and_show_all(browser: Chromium, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, training(rank=0).write(tmp_path / "rank0.json"))
    kernels = "[...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('Kernels')).nextElementSibling"
    visible = f"[...{kernels}.querySelectorAll('tbody tr')].filter(row => row.offsetHeight).length"
    assert page.value(visible) == 15
    page.value(f"{kernels}.querySelector('.more').click()")
    assert page.value(visible) > 15
    page.value(f"{kernels}.querySelectorAll('th')[1].click()")
    counts = page.value(f"[...{kernels}.querySelectorAll('tbody tr')].map(row => +row.cells[1].dataset.v)")
    assert counts == sorted(counts, reverse=True)
    assert page.errors == []


def test_one_rank_is_shown_at_a_time(browser: Chromium, tmp_path: Path) -> None:
    files = [training(rank=rank).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    page = shown(browser, tmp_path, *files)
    sections = "[...document.querySelectorAll('section.rank')].filter(s => !s.hidden).map(s => s.id)"
    assert page.value(sections) == ["job"]
    page.value("const s = document.getElementById('ranks'); s.value = 'rank-1'; s.dispatchEvent(new Event('change'))")
    assert page.value(sections) == ["rank-1"]
    assert page.errors == []


def test_nothing_out_of_a_trace_is_run(browser: Chromium, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, training(rank=0, name=HOSTILE).write(tmp_path / "rank0.json"))
    assert page.value("window.taken") is None
    assert page.value("document.images.length") == 0
    assert HOSTILE in page.value("document.body.textContent")
    assert page.errors == []


@pytest.mark.parametrize("width", [1280, 700])
def test_it_is_no_wider_than_the_window(browser: Chromium, tmp_path: Path, width: int) -> None:
    page = shown(browser, tmp_path, training(rank=0).write(tmp_path / "rank0.json"))
    page.width(width)
    assert page.value("document.documentElement.scrollWidth") <= width


def test_it_prints(browser: Chromium, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, training(rank=0).write(tmp_path / "rank0.json"))
    page.media("print")
    assert page.value("getComputedStyle(document.querySelector('.more')).display") == "none"
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.value("document.querySelectorAll('.rows div').length") > 5
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert 1 < len(re.findall(rb"/Type /Page\b", printed)) < 12


@needs_traces
def test_a_real_trace(browser: Chromium, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, FOLDER / "tl_h100_qwen.json.gz")
    assert page.value("document.querySelectorAll('.flame .rows div').length") > 100
    assert page.value("document.querySelectorAll('.lane path').length") > 3
    assert page.value("document.querySelectorAll('.roof circle').length") > 3
    assert page.errors == []
