"""The interpreter by its own name: what is started by it is a Python process, whatever the test's own is called."""

import sys
from pathlib import Path
from typing import Final

PYTHON: Final = str(Path(sys.executable).with_name("python3"))
