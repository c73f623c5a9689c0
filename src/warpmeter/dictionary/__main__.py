"""Make `docs/sql.md`: `python -m warpmeter.dictionary` (`make docs`)."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from warpmeter import migrate
from warpmeter.dictionary import catalogue, page
from warpmeter.settings import Store
from warpmeter.store import connect

TARGET: Final = Path(__file__).resolve().parents[3] / "docs" / "sql.md"


def main() -> None:
    """Migrate an empty store and write what it has."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(dsn=f"chdb://{folder}")
        with closing(connect(store, database="default")) as client:
            migrate.apply(client, store)
            TARGET.write_text(page.document(catalogue.read(client, store.database), store))


if __name__ == "__main__":
    main()
