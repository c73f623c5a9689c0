"""The fenced blocks of README and docs, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
FENCE: Final = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SHELL: Final = {"sh", "bash", "console", "shell"}
LINE: Final = re.compile(r"^\$? ?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?(?:warpmeter|make|pip|\.ci/run|curl)\b")
"""Begins a line of commands in a block that names no language."""
HERE: Final = re.compile(r"<<-?\s*'?(\w+)'?")
ASSIGNED: Final = re.compile(r"[A-Za-z_]+=.*", re.DOTALL)
JOINTS: Final = {"|", "||", "&&", ";", "&"}
REDIRECTED: Final = {">", ">>", "<"}


@dataclass(frozen=True)
class Block:
    """One fenced block; `language` is '' where none is named."""

    page: Path
    language: str
    text: str

    @property
    def name(self) -> str:
        """The page, from the root."""
        return str(self.page.relative_to(ROOT))


@dataclass(frozen=True)
class Command:
    """One program with its arguments, as a shell would call it."""

    page: str
    line: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """Its name without a folder."""
        return self.words[0].rpartition("/")[2]


def blocks() -> Iterator[Block]:
    """All of them."""
    for page in PAGES:
        yield from blocks_of(page, page.read_text())


def blocks_of(page: Path, part: str) -> Iterator[Block]:
    """Those of a part of a page."""
    for indent, language, text in FENCE.findall(part):
        yield Block(page, language, "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True)))


def commands() -> Iterator[Command]:
    """Every command of every shell block; what a command prints is none."""
    for block in blocks():
        if block.language in SHELL or (not block.language and LINE.match(block.text)):
            for line in _lines(block):
                yield from _commands(block.name, line)


def _lines(block: Block) -> Iterator[str]:
    """Whole lines: of a console those with a prompt; without what a here document holds."""
    lines = iter(block.text.replace("\\\n", " ").splitlines())
    prompted = re.search(r"^\$ ", block.text, re.MULTILINE) is not None
    for line in lines:
        if line.startswith("$ ") or (not prompted and line.strip()):
            while _goes_on(line):
                line += "\n" + next(lines)
            yield line.removeprefix("$ ")
            if here := HERE.search(line):
                while next(lines) != here[1]:
                    pass


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return lexer


def _goes_on(line: str) -> bool:
    try:
        list(_lexer(line))
    except ValueError:  # a quotation that is open
        return True
    return line.rstrip().endswith("|")


def _commands(page: str, line: str) -> Iterator[Command]:
    words: list[str] = []
    skip = False
    for word in (*_lexer(line), ";"):
        if word in JOINTS:
            if words and not words[0].startswith("#"):
                yield Command(page, line, tuple(words))
            words, skip = [], False
        elif skip or word in REDIRECTED or (not words and ASSIGNED.fullmatch(word)):
            skip = word in REDIRECTED
        else:
            words.append(word)
