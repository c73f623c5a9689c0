"""docs/deploy/runbooks.md: its runbooks by heading, with their parts, commands and quoted words."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.documentation import FENCE, ROOT

PAGE: Final = ROOT / "docs" / "deploy" / "runbooks.md"
PARTS: Final = ("Symptom", "Confirm", "Do", "Over when", "Lost", "Tried by")
_PART: Final = re.compile(r"^- \*\*([^*]+)\*\*:", re.MULTILINE)
_QUOTED: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Runbook:
    """One section: its parts by name."""

    heading: str
    parts: dict[str, str]

    def quoted(self, part: str) -> tuple[str, ...]:
        """What the text of a part has between backticks, outside its blocks of commands."""
        text = FENCE.sub("", self.parts[part])
        return tuple(" ".join(each.split()) for each in _QUOTED.findall(text))

    def says(self, part: str, words: str) -> str:
        """Words that the page quotes in that part, word by word: what a test looks for is what the page promises."""
        assert words in self.quoted(part), f"{self.heading}, {part}: {words!r} is not quoted: {self.quoted(part)}"
        return words

    def commands(self, *parts: str) -> list[list[str]]:
        """The words of each command in the blocks of these parts, of all parts where none is named."""
        blocks = [block for part in parts or PARTS for _, _, block in FENCE.findall(self.parts[part])]
        return [shlex.split(line) for block in blocks for line in block.splitlines() if line.strip()]

    def command(self, *begins: str) -> Sequence[str]:
        """The one command, in a block or quoted, that begins with these words after `warpmeter`."""
        quoted = [shlex.split(each) for part in PARTS for each in self.quoted(part) if each.startswith("warpmeter ")]
        found = [each for each in (*self.commands(), *quoted) if tuple(each[1 : len(begins) + 1]) == begins]
        assert found, f"{self.heading}: no command `warpmeter {' '.join(begins)}`"
        return found[0]


def runbooks() -> dict[str, Runbook]:
    """All of them, by heading."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {heading: Runbook(heading, _parts(text)) for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def _parts(text: str) -> dict[str, str]:
    found = _PART.split(text)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))
