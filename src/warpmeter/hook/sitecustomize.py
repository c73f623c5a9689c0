"""Runs as each Python below `warpmeter run` starts, which has this folder first in PYTHONPATH: steps are counted there.

The job's own `sitecustomize` runs as if this one were not there. Any Python reads this file, also one of version 2.
"""

import os
import sys

try:
    if sys.version_info >= (3, 8):  # noqa: UP036 - the job's Python may be any
        import warpmeter_steps  # type: ignore[import-not-found,unused-ignore]  # beside this file

        warpmeter_steps.install()
except Exception:  # noqa: BLE001, S110 - a job runs on, whatever is wrong with us
    pass

_own = sys.modules.pop(__name__, None)
_folder = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - any Python
sys.path[:] = [each for each in sys.path if os.path.realpath(each) != _folder]
try:
    import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401 - theirs, if there is one
except ImportError as error:
    if getattr(error, "name", __name__) != __name__:
        raise  # it is there, and lacks something: Python says so, as ever
finally:
    if _own is not None:
        sys.modules.setdefault(__name__, _own)
