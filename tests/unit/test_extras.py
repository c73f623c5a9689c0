"""What each extra installs is enough for the commands that it is for."""

import subprocess
import sys

import pytest

# The import names of what is not in the extra, made unimportable.
NOT_THERE: dict[str, tuple[str, ...]] = {
    "agent": ("grpc", "clickhouse_connect", "jinja2", "chdb", "numpy", "pandas", "uvicorn", "apscheduler", "lz4"),
    "analysis": (
        "clickhouse_connect",
        "confluent_kafka",
        "chdb",
        "pynvml",
        "psutil",
        "grpc",
        "opentelemetry",
        "pandas",
        "torch",
        "uvicorn",
        "apscheduler",
        "lz4",
        "orjson",
        "aiohttp",
    ),
    "scheduler": ("pynvml", "psutil", "chdb", "uvicorn", "lz4", "grpc", "opentelemetry", "torch"),
    "ingest": ("pynvml", "psutil", "chdb", "numpy", "pandas", "uvicorn", "apscheduler", "lz4"),
}


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("agent", "import warpmeter.cli.app, warpmeter.producers.agent"),
        ("agent", "from warpmeter.cli import common; common.settings()"),
        ("agent", "from warpmeter.cli import common, doctor; print(doctor.clickhouse(common.settings()))"),
        ("analysis", "import warpmeter.cli.app, warpmeter.cli.analyzing"),
        (
            "analysis",
            "import pathlib, tempfile; from warpmeter.cli import app;"
            "path = pathlib.Path(tempfile.mkdtemp(), 't.json'); path.write_text('[]');"
            "app(['analyze', str(path), '--json'])",
        ),
        ("ingest", "import warpmeter.cli.app, warpmeter.consumers.__main__, warpmeter.cli.migrating"),
        (
            "scheduler",
            "import warpmeter.cli.app, warpmeter.scheduler.__main__, warpmeter.scheduler.schedules,"
            "warpmeter.scheduler.analysing",
        ),
        ("ingest", "import warpmeter.cli.asking, warpmeter.cli.status, warpmeter.cli.doctor"),
    ],
)
def test_nothing_else_is_imported(extra: str, code: str) -> None:
    blocked = f"import sys; sys.modules.update(dict.fromkeys({NOT_THERE[extra]!r})); {code}"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_command_that_needs_more_says_what_to_install() -> None:
    blocked = "import sys; sys.modules['clickhouse_connect'] = None; sys.argv = ['warpmeter', 'sql', 'SELECT 1']"
    line = [sys.executable, "-c", f"{blocked}; from warpmeter.__main__ import main; main()"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'warpmeter[all]'" in done.stderr
    assert "Traceback" not in done.stderr
