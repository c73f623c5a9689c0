"""The package: a wheel made from the sdist installs and runs outside the checkout, with all that is not code in it."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(1200)


def run(*line: str | Path, cwd: Path) -> str:
    """Its stdout, from `cwd`, without this checkout on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel, and of everything else what this one has."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ROOT, cwd=folder)
    venv.create(folder / "venv", symlinks=True, with_pip=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next((folder / "dist").glob("*.whl"))
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_it_runs_outside_the_checkout(python: Path, tmp_path: Path) -> None:
    where = run(
        python, "-c", "import warpmeter.producers, warpmeter.consumers; print(warpmeter.__file__)", cwd=tmp_path
    )
    assert str(ROOT) not in where
    assert run(python, "-m", "warpmeter", "--version", cwd=tmp_path).startswith("warpmeter ")
    rows = [
        json.loads(line)
        for line in run(python, "-m", "warpmeter", "agent", "--once", "--json", cwd=tmp_path).splitlines()
    ]
    assert {"host-samples", "device-samples"} <= {row["topic"] for row in rows}


def test_it_analyses_a_trace_and_writes_the_page(python: Path, tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [kernel]}))
    words = ("analyze", "trace.json", "--json", "--html", "report.html")
    found = json.loads(run(python, "-m", "warpmeter", *words, cwd=tmp_path))
    assert found["ranks"][0]["busy_ns"] == 2000
    assert "gemm" in (tmp_path / "report.html").read_text()


def test_it_carries_what_is_not_code(python: Path, tmp_path: Path) -> None:
    code = (
        "from warpmeter import migrate, queries\n"
        "from warpmeter.schemas.topics import TOPICS\n"
        "print(len(migrate.migrations()), len(migrate.views()), len(queries.names()))\n"
        "print(all(topic.proto for topic in TOPICS.values()))\n"
        "import os; from warpmeter.hook import warpmeter_steps as it\n"
        "print('+'.join(sorted(name for name in os.listdir(it.FOLDER) if name.endswith('.py'))))"
    )
    migrations, views, named, protos, hook = run(python, "-c", code, cwd=tmp_path).split()
    assert hook == "sitecustomize.py+warpmeter_steps.py"
    assert int(migrations) >= 2
    assert int(views) >= 1
    assert int(named) >= 12
    assert protos == "True"
