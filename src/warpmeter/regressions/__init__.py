"""Jobs that got slower: than their own past runs, or than they were earlier in the same run; and what changed with it.

`detect` decides over plain numbers, `runs` and `kernels` say what else changed, `finding` asks the store and joins all.
"""

from warpmeter.regressions.finding import Asked, found
from warpmeter.regressions.said import KernelChange, Regression

__all__ = ["Asked", "KernelChange", "Regression", "found"]
