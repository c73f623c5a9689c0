"""Any Prometheus exporter as a source of `metric-samples`: every value that is wanted, counters with their rate."""

from typing import Final

from warpmeter import selfmetrics
from warpmeter.producers.scrape.fetch import Fetcher, Page
from warpmeter.producers.scrape.page import BadPageError, PageReader, Series, Values
from warpmeter.producers.scrape.rates import rates
from warpmeter.producers.scrape.rules import Chosen
from warpmeter.producers.source import STALE_PERIODS, Health, Reading, Sample
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope
from warpmeter.settings import Scrape

MetricSample = Envelope.MetricSample

WHY: Final = {
    "over": "series over max_series = {most} are not published; narrow the page with allow or deny, or raise the limit",
    "twice": "series are on the page twice with the same labels; see what `labels` drops",
    "stale": "values are not published: the exporter itself dates them {seconds:g} s back and more",
}

DROPPED: Final = selfmetrics.counter("warpmeter_scrape_dropped_series_total")


class ExporterPage:
    """Source of one endpoint."""

    topic: Final = "metric-samples"

    def __init__(self, host: str, scrape: Scrape) -> None:
        """Raises re.error when `allow` or `deny` is no regular expression."""
        self.name = f"scrape/{scrape.name}"
        self.period_s, self.timeout_s = scrape.period_s, 2 * scrape.limit_s
        self._host, self._scrape = host, scrape
        self._fetcher = Fetcher(scrape)
        self._stale_s = STALE_PERIODS * scrape.period_s
        self._reader = PageReader(Chosen(host, scrape), scrape.max_series, self._stale_s)
        self._last: Values | None = None
        self._templates: dict[Series, MetricSample] = {}
        self._count = selfmetrics.gauge("warpmeter_scrape_series").labels(scrape.name)

    def read(self) -> Page:
        """The page; raises SourceError when the endpoint does not answer well, in time, or within the size limit."""
        return self._fetcher.fetch()

    def parse(self, sample: Sample[Page], before: Sample[Page] | None) -> Reading:
        """A row for every value; a series that vanished has none, and a page not in its format has none at all."""
        try:
            now = self._reader.read(sample.raw, sample.ts)
        except BadPageError as error:
            self._last = None
            self._count.set(0)
            return Reading((), [self._refused(sample.raw, error)])
        grown = rates(now, self._last, sample.since(before), self.period_s)
        self._last = now
        self._templates = {series: self._templates.get(series) or self._template(series) for series in now.of}
        rows = [self._row(sample, series, value, grown.get(series)) for series, value in now.of.items()]
        self._count.set(len(rows))
        return Reading(rows, self._health(now))

    def close(self) -> None:
        """Nothing is held."""

    def _template(self, series: Series) -> MetricSample:
        return MetricSample(
            host=self._host,
            period_ms=round(self.period_s * 1000),
            source=self._scrape.name,
            name=series.name,
            labels=series.labels,
            kind=series.kind,
            unit=series.unit,
        )

    def _row(self, sample: Sample[Page], series: Series, value: float, rate: float | None) -> MetricSample:
        row = MetricSample()
        row.CopyFrom(self._templates[series])
        row.ts, row.value = sample.ts, value
        if rate is not None:
            row.rate_per_s = rate
        return row

    def _refused(self, page: Page, error: BadPageError) -> Health:
        """An exporter may write OpenMetrics wrongly and the text format well, so that is what it is asked for next."""
        self._fetcher.text_only = self._fetcher.text_only or page.openmetrics
        return Health("page", "failed", f"{self._scrape.url}: {error}; nothing of the page is published")

    def _health(self, now: Values) -> list[Health]:
        told = []
        for subject, why in WHY.items():
            if count := getattr(now, subject):
                DROPPED.labels(self._scrape.name, subject).inc(count)
                text = why.format(most=self._scrape.max_series, seconds=self._stale_s)
                told.append(Health(f"series/{subject}", "failed", f"{count} {text}", count))
        return told
