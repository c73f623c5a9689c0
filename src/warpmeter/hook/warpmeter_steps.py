"""Counts the optimizer steps of a PyTorch process, where the agent can read them: what a capture costs shows in them.

`sitecustomize`, beside this file, calls `install` in each Python below `warpmeter run`; a training script may itself:

    from warpmeter.hook import warpmeter_steps
    warpmeter_steps.install()

It stands alone, for the job's Python may have no warpmeter and be an older one (3.8), and nothing that goes wrong here
reaches the job. A step costs less than a microsecond. The count is in memory without a name in any file system
(memfd_create(2)), which ends with its process: whoever may read the process's environment finds it in /proc/<pid>/fd.

The memory, in the machine's byte order: MAGIC, the process's pid (its own, in its namespace) as 8 bytes, and SLOTS
times two numbers of 8 bytes: how many steps there were, and when the last of them ended (CLOCK_MONOTONIC, ns). A slot
has the last step of its time (2 to the power of SLOT_BITS ns, 134 ms), and is used again after 18 minutes.
"""

from __future__ import annotations

import mmap
import os
import sys
from struct import Struct
from time import monotonic_ns

TYPE_CHECKING = False  # typing's own takes milliseconds to load, in every Python of a job
if TYPE_CHECKING:
    from typing import Any

FOLDER = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib takes as long to load
"""For PYTHONPATH: it holds `sitecustomize`, and this, and nothing else."""
NAME = "warpmeter-steps"
MAGIC = b"WMSTEPS1"
HEAD = Struct("=8sQ")
SLOT_BITS = 27
SLOTS = 8192
SIZE = HEAD.size + SLOTS * 16
OPTIMIZER = "torch.optim.optimizer"
SINCE = (2, 3)
"""The version of PyTorch that tells whether it is compiling, at no cost."""


class Steps:
    """The count of this process. It begins with the first step."""

    def __init__(self) -> None:
        self._count = 0
        self._slots: memoryview | None = None
        self._kept: list[memoryview | None] = []
        self._off = False

    def step(self) -> None:
        """One more; after a failure (no memory to be had, or not allowed) no more."""
        if self._off:
            return
        try:
            slots = self._slots
            if slots is None:
                slots = self._slots = _memory()
            self._count += 1
            now = monotonic_ns()
            at = ((now >> SLOT_BITS) % SLOTS + 1) * 2  # a head is as large as a slot
            slots[at] = self._count
            slots[at + 1] = now
        except Exception:  # noqa: BLE001 - the job goes on
            self._off = True

    def forked(self) -> None:
        """In a child: the memory is its parent's. It is let be, not closed: its descriptor may be another's by now."""
        self._kept.append(self._slots)
        self._slots, self._count = None, 0


def _memory() -> memoryview:
    """New, as numbers of 8 bytes."""
    descriptor = os.memfd_create(NAME)
    try:
        os.ftruncate(descriptor, SIZE)
        made = mmap.mmap(descriptor, SIZE)  # which has a descriptor of its own
    finally:
        os.close(descriptor)
    HEAD.pack_into(made, 0, MAGIC, os.getpid())
    return memoryview(made).cast("Q")


def install() -> None:
    """Count from now on: at once where PyTorch is loaded, else when it will be. A second time does nothing."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path) or not hasattr(os, "memfd_create"):
        return
    finder = Finder()
    sys.meta_path.insert(0, finder)
    if OPTIMIZER in sys.modules:
        finder.done = True
        count(sys.modules[OPTIMIZER])


class Finder:
    """Lets others find the module of optimizers, and has steps counted when it is loaded."""

    def __init__(self) -> None:
        self.done = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As importlib asks; None for all other modules."""
        if name != OPTIMIZER or self.done:
            return None
        self.done = True
        for finder in [each for each in sys.meta_path if each is not self]:
            found = finder.find_spec(name, path, target)
            if found is not None:
                _when_loaded(found.loader)
                return found
        return None


def _when_loaded(loader: Any) -> None:
    try:
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            load(module)
            count(module)

        loader.exec_module = exec_module
    except AttributeError:  # a loader that is not Python's own
        pass


def count(optimizers: Any) -> None:
    """Have the steps of all optimizers counted."""
    try:
        torch, steps = sys.modules["torch"], Steps()
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < SINCE:
            return

        def stepped(*_: object) -> None:
            if not torch.compiler.is_dynamo_compiling():  # else the compiler would take our memory into its graph
                steps.step()

        optimizers.register_optimizer_step_post_hook(stepped)
        os.register_at_fork(after_in_child=steps.forked)
    except Exception:  # noqa: BLE001, S110 - the job goes on, and nothing is counted
        pass
