"""Panels of an analysed capture: where its time went, by part, rank, step, stream, copy; and against another one."""

from typing import Final

import nicegui.elements.echart  # noqa: F401 - registers the library that steps and memory are drawn with

from warpmeter.web.panels.panel import Panel

CHOSEN: Final = ("rank", "process", "sequence")
"""What of a capture is looked at: parameters of the page's address and of the API alike."""


class Head(Panel, component="analysis_head.js"):
    """What is looked at, how far it is, and what else: rank, round, the capture to compare with, timeline, files.

    It lets the panels of class `wm-analysed` be seen, and so fetch, only when the capture is analysed.
    """

    def __init__(self, source: str, capture: str, base: str, captures: str) -> None:
        super().__init__(source, "Capture", ("sequence",))
        self._props |= {"capture": capture, "base": base, "captures": captures}


class Findings(Panel, component="analysis_findings.js"):
    """What stands out, in words, and what to do first."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "What to do first", CHOSEN)


class Breakdown(Panel, component="analysis_breakdown.js"):
    """The span of the GPUs: by kinds of kernels and their overlaps (`kinds`), or busy and idle (`temporal`)."""

    def __init__(self, source: str, title: str, view: str) -> None:
        super().__init__(source, title, CHOSEN)
        self._props["view"] = view


class Ranks(Panel, component="analysis_ranks.js"):
    """Ranks side by side, and those that held the others up; `source` of the first and of the second."""

    def __init__(self, ranks: str, stragglers: str) -> None:
        super().__init__(ranks, "Ranks side by side", ("sequence",))
        self._props["source"] = [ranks, stragglers]


class Steps(Panel, component="analysis_steps.js"):
    """Steps as bars, what ran in each, the odd ones marked."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "Steps, and what the GPU did in each", CHOSEN)


class Streams(Panel, component="analysis_streams.js"):
    """Streams, and what their gaps waited for."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "Idle time by stream and cause", CHOSEN)


class Copies(Panel, component="analysis_copies.js"):
    """Copies and sets by direction and kind."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "Memory operations", CHOSEN)


class Held(Panel, component="analysis_held.js"):
    """What tensors held of a device's memory over time, and who at the peak."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "Device memory held by tensors", CHOSEN)


class Diff(Panel, component="analysis_diff.js"):
    """Two captures: which part of the time changed."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "Against the earlier capture", ("sequence",))
