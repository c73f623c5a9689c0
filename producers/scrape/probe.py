"""Read an endpoint once, for whoever wants to know whether it answers and with what."""

import time

from warpmeter.producers.scrape.fetch import Fetcher
from warpmeter.producers.scrape.page import BadPageError, PageReader
from warpmeter.producers.scrape.pcm import MOST_SERIES, NAMES, sockets
from warpmeter.producers.scrape.rules import Chosen, Fixed
from warpmeter.producers.source import Sample, SourceError
from warpmeter.settings import Scrape


def probe(host: str, scrape: Scrape) -> tuple[str, bool]:
    """What the endpoint has, and whether all of it is published.

    Raises SourceError when it does not answer, or with a page of another kind.
    """
    began = time.monotonic()
    page = Fetcher(scrape).fetch()
    took = f"in {time.monotonic() - began:.2f} s"
    sample = Sample(time.time(), began, scrape.period_s, page)
    try:
        if scrape.page == "any":
            found = PageReader(Chosen(host, scrape), scrape.max_series).read(page, sample.ts)
            over = f"; {found.over} more are over max_series" if found.over else ""
            return f"{len(found.of)} series {took}{over}", not found.over
        if scrape.page == "pcm":
            count = len(sockets(PageReader(Fixed(NAMES), MOST_SERIES), sample))
        else:
            from warpmeter.producers.gpu.dcgm import read_gpus

            count = len(read_gpus(page, sample.ts))
    except BadPageError as error:
        raise SourceError("failed", f"{scrape.url}: {error}") from error
    if not count:
        raise SourceError("failed", f"{scrape.url} has none of what a {scrape.page} page has")
    return f"{count} {'sockets' if scrape.page == 'pcm' else 'GPUs'} {took}", True
