"""Make `docs/analysis.schema.json`, the JSON Schema of `warpmeter analyze --json` (`make docs`)."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from warpmeter.analysis.capture import Document
from warpmeter.analysis.report import SCHEMA_VERSION

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "analysis.schema.json"


def schema() -> dict[str, Any]:
    """The schema of the whole document (draft 2020-12), with the docstrings of its parts."""
    made = msgspec.json.schema(Document)
    made["$defs"]["Document"]["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "warpmeter analyze --json"}
    return head | made


def text() -> str:
    """The file's text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
