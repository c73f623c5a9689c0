"""Make `schemas/generated/` from the `.proto` files: `python schemas/generate.py [--check]` (`make proto`).

Needs grpcio-tools, whose bundled compiler is pinned in constraints.txt, so that the output is the same everywhere.
"""

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
GENERATED = HERE / "generated"


def generate(into: Path) -> None:
    """Compile every `.proto` into `into`; raises SystemExit with the compiler's message on a mistake."""
    protos = sorted(str(path) for path in HERE.glob("*.proto"))
    code = protoc.main(["protoc", f"-I{HERE}", f"--python_out={into}", f"--pyi_out={into}", *protos])
    if code:
        raise SystemExit(code)
    (into / "__init__.py").write_text('"""Made by schemas/generate.py; do not edit."""\n')


def stale(fresh: Path) -> list[str]:
    """Names of generated files that differ from a fresh run, or that only one side has."""
    names = {path.name for folder in (fresh, GENERATED) for path in folder.glob("*.py*") if path.is_file()}
    return sorted(filecmp.cmpfiles(fresh, GENERATED, names, shallow=False)[1]) + sorted(
        filecmp.cmpfiles(fresh, GENERATED, names, shallow=False)[2]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the code is not current")
    if not parser.parse_args().check:
        GENERATED.mkdir(exist_ok=True)
        generate(GENERATED)
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        if names := stale(Path(folder)):
            sys.exit(f"not current: {', '.join(names)}; run `make proto` and commit the result")


if __name__ == "__main__":
    main()
