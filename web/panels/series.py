"""Metrics over time as lines: of hosts, GPUs, jobs or devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import nicegui.elements.echart  # noqa: F401 - registers the library that the panel draws with

from warpmeter.web.panels.panel import WINDOW, Panel

SERIES: Final = "/api/v1/series"

Parts = Mapping[str, tuple[str, str]]
"""Lines of a panel: a name ('' where there is but one kind of line), and the question and the metric of each."""
Questions = Mapping[str, Mapping[str, str]]
"""What is asked of the series beside the metrics, by a name."""


@dataclass(frozen=True)
class Lines:
    """The chart of `metric` ('' the only one there is) in what `source` answers, as `/api/v1/series` does.

    `name`: what its lines are called; '' where a panel has but one kind.
    """

    source: str
    metric: str = ""
    name: str = ""


def shared(panels: Mapping[str, Parts], questions: Questions, **narrowed: str) -> Mapping[str, Sequence[Lines]]:
    """The lines of panels, by title: for each question one request is made, for all the metrics of all these panels."""
    metrics: dict[str, dict[str, None]] = {}
    for question, metric in (part for parts in panels.values() for part in parts.values()):
        metrics.setdefault(question, {})[metric] = None
    sources = {
        question: f"{SERIES}?{urlencode({**questions[question], **narrowed, 'metric': list(found)}, doseq=True)}"
        for question, found in metrics.items()
    }
    return {
        title: [Lines(sources[question], metric, name) for name, (question, metric) in parts.items()]
        for title, parts in panels.items()
    }


class Series(Panel, component="series.js"):
    """Panels whose lines have the same source share its answer.

    `why`: the address of a host's sources, which tell why there is nothing to draw; `hint`: what it would need;
    `link`: `host` or `job`, of which each line is one.
    """

    def __init__(
        self,
        title: str,
        lines: Sequence[Lines],
        *,
        follows: Sequence[str] = WINDOW,
        why: str | None = None,
        hint: str = "",
        link: str | None = None,
    ) -> None:
        super().__init__([each.source for each in lines], title, follows)
        self._props["metrics"] = [each.metric for each in lines]
        self._props["names"] = [each.name for each in lines]
        self._props["why"] = why
        self._props["link"] = link
        self._props["hint"] = hint
