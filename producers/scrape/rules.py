"""Which metrics of a page are wanted, and what their labels are called here."""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from warpmeter.settings import Scrape

COMMON: Final[Mapping[str, str]] = {
    "UUID": "uuid",
    "gpu_uuid": "uuid",
    "hpc_job": "job_id",
    "jobid": "job_id",
    "slurm_job_id": "job_id",
    "slurm_jobid": "job_id",
}
"""Names that exporters give to what our tables call `uuid` and `job_id`."""
HERE: Final = frozenset({"host", "hostname", "Hostname", "instance", "node", "nodename"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class Rules(Protocol):
    """How a page is read."""

    def wanted(self, name: str) -> bool:
        """Whether the metric of this name, as exposed, is read at all."""

    def labels(self, given: Mapping[str, str]) -> dict[str, str]:
        """The labels as they are to be."""


class Chosen:
    """The rules of the settings: `allow` and `deny` by whole name, `labels` over the common names.

    A label that only says which host this is goes, for every row says so itself.
    """

    def __init__(self, host: str, scrape: Scrape) -> None:
        """Raises re.error when `allow` or `deny` is no regular expression."""
        self._allow, self._deny = re.compile(scrape.allow), re.compile(scrape.deny) if scrape.deny else None
        self._names = {**COMMON, **scrape.labels}
        self._given = scrape.labels
        self._here = {host, host.partition(".")[0], *LOOPBACK}

    def wanted(self, name: str) -> bool:
        """Allowed and not denied."""
        denied = self._deny is not None and self._deny.fullmatch(name) is not None
        return not denied and self._allow.fullmatch(name) is not None

    def labels(self, given: Mapping[str, str]) -> dict[str, str]:
        """Renamed; without those renamed to nothing and those that name this host. An empty one is none, as ever."""
        return {
            name: value
            for old, value in given.items()
            if value and (name := self._names.get(old, old)) and not self._says_here(old, value)
        }

    def _says_here(self, label: str, value: str) -> bool:
        if label not in HERE or label in self._given:
            return False
        return value in self._here or value.rpartition(":")[0] in self._here


class Fixed:
    """The rules of a page whose metrics are known: these names, labels as they are."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def wanted(self, name: str) -> bool:
        """Whether it is one of them."""
        return name in self._names

    def labels(self, given: Mapping[str, str]) -> dict[str, str]:
        """As they are."""
        return dict(given)
