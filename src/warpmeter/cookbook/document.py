"""Make `docs/cookbook.md` from the recipes and `sql/queries`: `python -m warpmeter.cookbook.document` (`make docs`)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warpmeter import queries
from warpmeter.cookbook import CHAPTERS, NAMES
from warpmeter.queries import Query

TARGET: Final = Path(__file__).resolve().parents[3] / "docs" / "cookbook.md"
INTRODUCTION: Final = """# Cookbook

Made by `make docs` from `sql/queries` and `src/warpmeter/cookbook`; do not edit.

{count} questions, each with the query that answers it. All of them are named queries, so they need not be copied:

```
warpmeter queries gpu_hours_by_team --param since=2026-11-23 --param until=2026-11-30
curl 'http://127.0.0.1:8080/api/v1/queries/gpu_hours_by_team?since=-7d'
```

```python
import warpmeter

wm = warpmeter.connect()
wm.query("gpu_hours_by_team", since="-7d")
```

`warpmeter queries` lists these and what the pages ask besides; `warpmeter queries NAME --show` prints one with the value of
each parameter, to be copied into another client. There a parameter is set first (`SET param_since = '2026-11-23 00:00:00'`),
or its value written in place of `{{name:Type}}`. A metric is given by its SI name ([metrics.md](metrics.md)); names that
begin with `metric_` follow from it, and `--show` tells them.

What all of them share: times are UTC, a window is `since <= t < until`, and where a question is about hours, both fall on
whole hours. NULL is "not known", never 0. A GPU is idle while it is known to be below 5 % busy. Each query runs in a test
on planted facts, and its rows are held against what follows from them.
"""


def document() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION.format(count=len(NAMES)), *_contents(), *_chapters()])


def _contents() -> Iterator[str]:
    for chapter in CHAPTERS:
        yield f"**{chapter.title}**\n"
        for name in chapter.recipes:
            question = queries.get(name).question
            yield f"- [{question}](#{_anchor(question)})"
        yield ""


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _chapters() -> Iterator[str]:
    for chapter in CHAPTERS:
        yield f"## {chapter.title}\n"
        for name, (answer, pitfalls) in chapter.recipes.items():
            yield from _recipe(queries.get(name), answer, pitfalls)


def _recipe(query: Query, answer: str, pitfalls: str) -> Iterator[str]:
    yield f"### {query.question}\n"
    yield f"`{query.name}`: {_rest(query)}\n"
    yield f"```sql\n{query.sql}\n```\n"
    if query.parameters:
        yield "| parameter | default | meaning |\n|---|---|---|"
        for each in query.parameters:
            default = "must be given" if each.default is None else f"`{each.default}`" if each.default else "empty"
            yield f"| `{each.name}` | {default} | {each.meaning} |"
        yield ""
    yield f"**The answer.** {answer}\n"
    yield f"**Pitfalls.** {pitfalls}\n"


def _rest(query: Query) -> str:
    """Its description without the question, which is the heading."""
    rest = query.description.removeprefix(query.question).strip()
    return (rest[0].lower() + rest[1:]) if rest[1:2].islower() else rest


def main() -> None:
    """Write the page."""
    TARGET.write_text(document())


if __name__ == "__main__":
    main()
