"""The page of Intel's PCM exporter: CPU sockets with caches and memory bandwidth."""

from pathlib import Path
from typing import Any

from warpmeter.producers.scrape.fetch import Page
from warpmeter.producers.scrape.pcm import PcmPage, columns
from warpmeter.producers.source import Reading, Sample
from warpmeter.settings import Scrape

PAGES = Path(__file__).parents[1] / "golden" / "pages"


def sample(at: float, body: bytes) -> Sample[Page]:
    """A page that was read at that second."""
    return Sample(1.8e9 + at, at, 10.0, Page(body))


def source() -> PcmPage:
    """A source that has read nothing yet."""
    return PcmPage("gpu01", Scrape("pcm", "http://127.0.0.1:9738/metrics", "pcm"))


def second() -> tuple[PcmPage, Sample[Page], Reading]:
    """After the second page: the source, that page, and what it means."""
    pcm = source()
    first, then = (sample(10.0 * n, (PAGES / f"pcm_{n}.prom").read_bytes()) for n in (1, 2))
    assert pcm.parse(first, None) == Reading()  # counts become rates with the next page
    return pcm, then, pcm.parse(then, first)


def test_sockets_have_caches_and_bandwidth() -> None:
    _, _, reading = second()
    rows: list[Any] = list(reading.rows)
    assert reading.health == ()
    assert [(row.kind, row.device, row.period_ms) for row in rows] == [
        ("socket", "socket0", 10_000), ("socket", "socket1", 10_000),
    ]  # fmt: skip
    told = {field.name: value for field, value in rows[0].ListFields()}
    assert {
        name: value for name, value in told.items() if name not in ("host", "ts", "period_ms", "kind", "device")
    } == {
        "instructions_mega_per_s": 5200,
        "cycles_mega_per_s": 2800,
        "l2_loads_kilo_per_s": 36_000,
        "l2_misses_kilo_per_s": 9000,
        "l2_hit_ratio_permille": 750,
        "l3_loads_kilo_per_s": 8000,
        "l3_misses_kilo_per_s": 2000,
        "l3_hit_ratio_permille": 750,
        "mem_read_megabytes_per_s": 18_000,
        "mem_write_megabytes_per_s": 6000,
    }
    assert rows[1].mem_read_megabytes_per_s == 9000


def test_an_exporter_that_began_anew_gives_nothing_for_a_page() -> None:
    pcm, before, _ = second()
    reading = pcm.parse(sample(30.0, (PAGES / "pcm_1.prom").read_bytes()), before)
    assert all(len(row.ListFields()) == 5 for row in reading.rows)


def test_without_loads_there_is_no_ratio() -> None:
    assert columns({"L2_Cache_Hits": 5, "L2_Cache_Misses": 1}, {"L2_Cache_Hits": 5, "L2_Cache_Misses": 1}, 1.0) == {
        "l2_misses_kilo_per_s": 0, "l2_loads_kilo_per_s": 0,
    }  # fmt: skip


def test_another_page_says_that_it_is_another() -> None:
    (health,) = source().parse(sample(1.0, b"up 1\n"), None).health
    assert (health.subject, health.state) == ("page", "failed")
    assert "not the page of pcm-sensor-server" in health.why
    (health,) = source().parse(sample(1.0, b"<html>\n"), None).health
    assert "text format" in health.why
