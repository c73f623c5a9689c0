"""Write both pages."""

from pathlib import Path
from typing import Final

from warpmeter.cli.documents import commands, configuration

REFERENCE: Final = Path(__file__).resolve().parents[4] / "docs" / "reference"
PAGES: Final = {"cli.md": commands.document, "configuration.md": configuration.document}


def main() -> None:
    """Make them anew."""
    REFERENCE.mkdir(exist_ok=True)
    for name, document in PAGES.items():
        (REFERENCE / name).write_text(document())


if __name__ == "__main__":
    main()
