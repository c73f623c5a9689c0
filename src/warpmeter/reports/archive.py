"""Where reports are kept: each a folder `schedule/period` of `reports.url`, whole or not there, with its mail.

What was rendered once is sent from here, and read from here by the page. Names are those that the manifest of a report
has, so nothing else can be asked for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from warpmeter.sending import File, Message, Refused, Sent, TryAgain, folder
from warpmeter.sending.limits import bounded
from warpmeter.settings import Reports

PAGE: Final = "mail/page.html"
INLINE: Final = "mail/inline/"
WITHIN_S: Final = 120.0


class ArchiveError(Exception):
    """A report cannot be kept, or not be read; the message says why."""


@dataclass(frozen=True)
class Archive:
    """The reports that are kept at `reports.url`. Every call may wait for a store, for `WITHIN_S` at most."""

    reports: Reports

    def keep(self, message: Message) -> str:
        """Keep a rendered report, its mail among its files; where it lies. Raises ArchiveError."""
        inline = [replace(each, name=f"{INLINE}{folder.safe(each.name)}") for each in message.inline]
        files = (*message.files, File(PAGE, "text/html", message.html.encode()), *inline)
        names = {f"{INLINE}{folder.safe(each.name)}": each.name for each in message.inline}
        facts = {**message.facts, "link": message.link, "inline": names}
        kept = replace(message, files=files, facts=facts, place=message.id)
        match folder.put(self.reports.url, self.reports.options, kept, WITHIN_S):
            case Sent(url=url):
                return url
            case TryAgain(why=why) | Refused(why=why):
                raise ArchiveError(f"the report cannot be kept: {why}")

    def manifest(self, report_id: str) -> dict[str, Any] | None:
        """What is known of a report; None when it is not there. Raises ArchiveError."""
        data = self.read(report_id, folder.MANIFEST)
        if data is None:
            return None
        try:
            found = json.loads(data)
        except ValueError as error:
            raise ArchiveError(f"the manifest of report {report_id} cannot be read: {error}") from error
        return found if isinstance(found, dict) and found.get("id") == report_id else None

    def file(self, report_id: str, name: str) -> tuple[bytes, str] | None:
        """One file and its media type; None where the report has none of that name. Raises ArchiveError."""
        told = self.manifest(report_id)
        for each in () if told is None else told["files"]:
            if each["name"] == name:
                data = self.read(report_id, name)
                return None if data is None else (data, str(each["media_type"]))
        return None

    def load(self, report_id: str) -> Message | None:
        """A report as it is sent; None when it is not there. Raises ArchiveError."""
        told = self.manifest(report_id)
        if told is None:
            return None
        files = tuple(self._files(report_id, told))
        known = {"id", "title", "text", "files", "link", "inline"}
        return Message(
            id=report_id, title=told["title"], text=told["text"], link=told["link"], place=report_id,
            html=next((file.data.decode() for file in files if file.name == PAGE), ""),
            inline=tuple(
                replace(file, name=told["inline"][file.name]) for file in files if file.name in told["inline"]
            ),
            files=tuple(file for file in files if file.name != PAGE and file.name not in told["inline"]),
            facts={key: value for key, value in told.items() if key not in known},
        )  # fmt: skip

    def _files(self, report_id: str, told: dict[str, Any]) -> Iterator[File]:
        for each in told["files"]:
            data = self.read(report_id, each["name"])
            if data is None:
                raise ArchiveError(f"of report {report_id} the file {each['name']} is gone")
            yield File(each["name"], each["media_type"], data)

    def read(self, report_id: str, name: str) -> bytes | None:
        """A file as it lies there; None when there is none. Raises ArchiveError."""
        try:
            return folder.read(self.reports.url, self.reports.options, f"{report_id}/{name}", WITHIN_S)
        except folder.ReadError as error:
            raise ArchiveError(f"reports.url: {error}") from error

    def prune(self, now: float) -> int:
        """Remove reports that are older than `keep_days`; how many. Raises ArchiveError."""
        if not self.reports.keep_days:
            return 0
        before = now - self.reports.keep_days * 86_400
        try:
            return bounded(WITHIN_S, lambda: folder.prune(self.reports.url, self.reports.options, before))
        except Exception as error:  # every store has its own errors
            raise ArchiveError(f"old reports cannot be removed: {type(error).__name__}: {error}") from error
