"""For mkdocs: README and its like are pages of the site, and a link to a file of the source is its name there."""

import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
"""Files of the root, and their pages."""
OPERATE: Final = "deploy"
LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCE: Final = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """All pages of `docs/deploy` are in the navigation, by their headings."""
    found = sorted((ROOT / "docs" / OPERATE).glob("*.md"))
    for section in config["nav"]:
        for name, pages in section.items():
            if pages == [OPERATE]:
                section[name] = [f"{OPERATE}/{each.name}" for each in found]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages of the root's files."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Every link as the site has it."""
    of_root = {name: source for source, name in PAGES.items()}
    source = of_root.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _link(found, source, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], source: str, uri: str) -> str:
    words, (path, hash_, anchor) = found[1], found[2].partition("#")
    if "://" in path or not path:
        return found[0]
    target = normpath(join(str(Path(source).parent), path))
    page = PAGES.get(target, target.removeprefix("docs/"))
    if page != target and not (ROOT / target).is_dir():
        return f"[{words}]({relpath(page, str(Path(uri).parent))}{hash_}{anchor})"
    if not (ROOT / target).exists():
        return found[0]  # mkdocs says that it is broken
    return words if target in words else f"{words} (`{target}`)"
