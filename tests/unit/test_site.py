"""The documentation becomes a site: no link of it leads nowhere, and nothing of it is loaded from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.documentation import PAGES, ROOT

pytestmark = pytest.mark.long

LOADED: Final = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?([^\"\s>]+)")
LINKED: Final = re.compile(r"<a\b[^>]*?href=\"?([^\"\s>]+)")
FONTS: Final = re.compile(r"url\(\s*[\"']?(?:https?:)?//")
WELL: Final = re.compile(r"https?://[\w.:-]+(?:/[^\s\"<>]*)?")


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES) - 5
    for page in pages:
        text = page.read_text()
        elsewhere = [url for url in LOADED.findall(text) if "//" in url and "rel=canonical" not in text]
        assert elsewhere == [], page
        assert [url for url in LINKED.findall(text) if "://" in url and not WELL.fullmatch(url)] == [], page
    assert not [css for css in (tmp_path / "site").rglob("*.css") if FONTS.search(css.read_text())]
