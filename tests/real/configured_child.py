"""A process with an engine that has a configuration: `python -m tests.real.configured_child FOLDER`.

Standard input is JSON: `config`, what stands in its `<clickhouse>` (`FOLDER` in it is the folder); `asked`, statements,
each with its parameters. Standard output is JSON: of each what was answered, or the error.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import chdb

Asked = tuple[str, Mapping[str, str]]
ROOT = Path(__file__).parents[2]


def answers(folder: Path, config: str, asked: Sequence[Asked]) -> list[str]:
    """What an engine in `folder`, in a process of its own, says to each."""
    child = [sys.executable, "-m", "tests.real.configured_child", str(folder)]
    told = json.dumps({"config": config, "asked": asked})
    found = subprocess.run(child, input=told, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stderr[-2000:]
    said: list[str] = json.loads(found.stdout)
    return said


def _answer(connection: Any, sql: str, parameters: Mapping[str, str]) -> str:
    try:
        return str(connection.query(sql, "TSVWithNames", params=parameters).bytes().decode())
    except RuntimeError as error:
        return f"error: {error}"


def main() -> None:
    """Do what standard input asks."""
    folder, told = Path(sys.argv[1]), json.load(sys.stdin)
    configuration = folder / "config.xml"
    configuration.write_text(f"<clickhouse>{told['config'].replace('FOLDER', str(folder))}</clickhouse>")
    connection = chdb.connect(f"{folder}/data?config-file={configuration}")
    try:
        said = [_answer(connection, sql, parameters) for sql, parameters in told["asked"]]
    finally:
        connection.close()
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
