"""What `warpmeter analyze` prints."""

from warpmeter.analysis.capture import Document
from warpmeter.cli.reporting.changes import show_diff
from warpmeter.cli.reporting.rank import show_rank
from warpmeter.cli.reporting.ranks import show_ranks

__all__ = ["show"]


def show(document: Document, top: int) -> None:
    """What changed, where there is an earlier capture; one rank in full; of several a line each and their job."""
    if document.diff is not None:
        show_diff(document.diff, top)
    elif len(document.ranks) == 1:
        show_rank(document.ranks[0], top)
    else:
        show_ranks(document, top)
