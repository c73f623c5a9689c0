"""Prometheus endpoints as sources: any exporter as `metric-samples`, Intel's PCM exporter as CPU sockets.

`fetch` speaks HTTP, `page` reads a page through prometheus-client's parsers, `rules` chooses and relabels, `rates`
makes rates of counters, `exporter` and `pcm` are the sources. DCGM's page is in `producers.gpu.dcgm`: it fills rows of
GPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from warpmeter.producers.scrape.exporter import ExporterPage
from warpmeter.producers.scrape.pcm import PcmPage
from warpmeter.producers.source import AnySource, Attribution
from warpmeter.settings import Agent, Scrape

KINDS: Final[Mapping[str, Callable[[str, Scrape], AnySource]]] = {"any": ExporterPage, "pcm": PcmPage}


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """A source for each endpoint of the settings, but for DCGM's."""
    return [KINDS[scrape.page](agent.host, scrape) for scrape in agent.scrape if scrape.page in KINDS]
