"""Make generated code from the `.proto` files: `python schemas/generate.py [--check]` (`make proto`).

`schemas/*.proto` is the contract, and its code is in `schemas/generated/`; what is spoken of another system's
API or format is beside who speaks it.

Needs grpcio-tools, whose bundled compiler is pinned in constraints.txt, so that the output is the same everywhere.
"""

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
FOLDERS = (HERE, HERE.parent / "producers" / "jobs" / "kubernetes", HERE.parent / "src" / "warpmeter" / "stacks")


def generate(folder: Path, into: Path) -> None:
    """Compile every `.proto` of a folder into `into`; raises SystemExit with the compiler's message on a mistake."""
    protos = sorted(str(path) for path in folder.glob("*.proto"))
    code = protoc.main(["protoc", f"-I{folder}", f"--python_out={into}", f"--pyi_out={into}", *protos])
    if code:
        raise SystemExit(code)
    (into / "__init__.py").write_text('"""Made by schemas/generate.py; do not edit."""\n')


def stale(fresh: Path, generated: Path) -> list[str]:
    """Names of generated files that differ from a fresh run, or that only one side has."""
    names = {path.name for folder in (fresh, generated) for path in folder.glob("*.py*") if path.is_file()}
    _, differ, missing = filecmp.cmpfiles(fresh, generated, names, shallow=False)
    return sorted(differ) + sorted(missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the code is not current")
    check = parser.parse_args().check
    for folder in FOLDERS:
        generated = folder / "generated"
        if not check:
            generated.mkdir(exist_ok=True)
            generate(folder, generated)
            continue
        with tempfile.TemporaryDirectory() as fresh:
            generate(folder, Path(fresh))
            if names := stale(Path(fresh), generated):
                sys.exit(f"not current: {', '.join(names)}; run `make proto` and commit the result")


if __name__ == "__main__":
    main()
