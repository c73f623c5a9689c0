"""What the agent loads decides what it weighs: 60 MiB on every host of a fleet."""

import json
import subprocess
import sys

HEAVY = ("pydantic", "pydantic_settings", "typer", "rich", "click", "pandas", "numpy", "pyarrow", "clickhouse_connect",
         "psutil", "chdb", "starlette", "fastapi")  # fmt: skip


def test_nothing_heavy_is_on_the_agents_import_path() -> None:
    script = f"""
import json, sys
import warpmeter.producers.__main__
print(json.dumps([name for name in {HEAVY} if sys.modules.get(name) is not None]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []
