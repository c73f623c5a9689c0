"""What each extra installs: a CycloneDX list with licences, and what is known to be wrong with it (`make sbom`).

`cyclonedx-py` lists this environment, which constraints.txt decides; of that each extra's own part is taken.
`pip-audit` asks PyPI for known holes. Where PyPI cannot be asked, that is said in a line, and nothing fails; a known
hole does.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "build" / "sbom"
SELF: Final = "warpmeter"
OF_TESTS: Final = {"dev", "docs"}
"""Extras that nobody runs warpmeter with."""
UNKNOWN: Final = "not said"
PATIENCE_S: Final = 300


def extras() -> tuple[str, ...]:
    """Those of pyproject.toml, as installed."""
    return tuple(sorted(distribution(SELF).metadata.get_all("Provides-Extra") or ()))


def closure(extra: str) -> frozenset[str]:
    """Names of all distributions that `warpmeter[extra]` takes on this Python; without warpmeter itself."""
    found: dict[tuple[str, str], None] = {}
    waiting = [(SELF, ""), (SELF, extra)]
    while waiting:
        name, of = waiting.pop()
        if (name, of) in found:
            continue
        found[name, of] = None
        waiting += _asked(name, of)
    return frozenset(name for name, _ in found) - {SELF}


def _asked(name: str, extra: str) -> Iterator[tuple[str, str]]:
    try:
        lines = distribution(name).requires or ()
    except PackageNotFoundError:  # for another system or Python
        return
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": extra}):
            wanted = canonicalize_name(requirement.name)
            yield wanted, ""
            yield from ((wanted, each) for each in requirement.extras)


def whole() -> dict[str, Any]:
    """The CycloneDX list of this environment."""
    line = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", sys.prefix]
    return dict(json.loads(subprocess.run(line, capture_output=True, check=True, timeout=PATIENCE_S).stdout))


def part(listed: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Of the list that of some distributions, and what depends on what among them."""
    kept = [each for each in listed["components"] if canonicalize_name(each["name"]) in names]
    refs = {each["bom-ref"] for each in kept}
    graph = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", ()) if ref in refs]}
        for each in listed.get("dependencies", ())
        if each["ref"] in refs
    ]
    return {**listed, "components": kept, "dependencies": graph}


def licences(component: Mapping[str, Any]) -> str:
    """What it says of itself, in a line."""
    said = component.get("licenses") or ()
    names = [each.get("expression") or each["license"].get("id") or each["license"].get("name") for each in said]
    return ", ".join(dict.fromkeys(" ".join(name.split())[:60] for name in names if name)) or UNKNOWN


def audit() -> tuple[int, str]:
    """How many known holes PyPI has of what is installed, and what to say; -1 when it cannot be asked."""
    line = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off", "-f", "json"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S)
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, json.JSONDecodeError, KeyError):
        return -1, "holes: PyPI could not be asked, so none is known here"
    holes = [f"{each['name']} {each['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'none'}"
             for each in found for hole in each.get("vulns", ())]  # fmt: skip
    return len(holes), "\n".join(holes) or f"holes: none known of {len(found)} distributions"


def main() -> int:
    """Write the lists, print licences, ask for holes; 1 for a known one."""
    TARGET.mkdir(parents=True, exist_ok=True)
    listed = whole()
    for extra in extras():
        found = part(listed, closure(extra))
        (TARGET / f"{extra}.cdx.json").write_text(json.dumps(found, indent=1, sort_keys=True))
        print(f"{extra}: {len(found['components'])} distributions" + " (not run with)" * (extra in OF_TESTS))
    told: dict[str, list[str]] = {}
    for component in part(listed, closure("all"))["components"]:
        told.setdefault(licences(component), []).append(component["name"])
    text = "\n".join(f"{licence}: {', '.join(sorted(names))}" for licence, names in sorted(told.items()))
    (TARGET / "licences.txt").write_text(text + "\n")
    print(re.sub(r"^", "  ", text, flags=re.MULTILINE))
    count, said = audit()
    print(said)
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
