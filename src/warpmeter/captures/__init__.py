"""What agents and the scheduler say of a capture, in the words that both use: states, and reasons why one failed."""

from collections.abc import Mapping
from typing import Final

FINAL: Final = frozenset({"captured", "failed", "cancelled"})
"""Of one process: nothing more comes of it, but `analysed` after `captured`."""

REASONS: Final[Mapping[str, str]] = {
    "no_process": "nothing matches: no process of that job, with that pid or below it runs on the host",
    "not_registered": "it runs without asking for captures: PyTorch is not loaded, or another daemon answers it",
    "missing_variables": "it was started without a variable that makes PyTorch ask for captures",
    "busy": "it traces already, for another capture or by a profiler in its own code",
    "not_polling": "it registered, and did not ask in time for what is wanted: it is stopped, or starved of CPU",
    "cancelled_by_kineto": "PyTorch took the request and dropped it: too late, or a profiler in its code began",
    "wrote_nothing": "it traced, and its file never appeared",
    "no_step": "iterations were asked for, and its optimizer made none in time",
    "process_ended": "it ended before its trace was whole",
    "file_refused": "what lies where its trace should be is no file of that process: a link, a pipe, somebody else's",
    "too_large": "its trace is larger than the limit",
    "upload_failed": "the trace store did not take the trace",
    "disk_full": "there is no room for the trace: where the process writes, or in the trace store",
    "bad_request": "the request cannot be carried out as it stands",
    "expired": "its deadline passed before its trace was stored",
    "agent_away": "the agent of the host does not answer",
    "clock_skew": "a warning: the clock of the host is off, so its trace begins at another time than the others",
    "cancelled_by_request": "somebody cancelled the capture",
    "slowdown": "the job ran slower by more than the capture may cost",
    "unmeasured": "it may cost so much and no more, and nobody counts the steps by which that would show",
    "store_away": "the store, which knows where a job runs, does not answer",
    "analysis_failed": "the trace is there, and could not be analysed or loaded",
    "limit": "a ceiling of the capture was reached: number, bytes, time or processes",
}
"""Reasons and what they mean; docs/profiling.md says of each what to do."""
