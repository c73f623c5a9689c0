"""Programs of which it is known what they do: seven tenths of each tenth of a second one thing, three tenths another.

They go by the clock, and keep account of when they turned to what, for on a busy machine they are late at that. Lines
are found by their marks. Each lets any other process look at it, where Yama would let its parents alone (prctl(2)).
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final

TURNED: Final = Struct("=dd")
BEGIN: Final = """\
import asyncio, ctypes, hashlib, os, queue, struct, sys, threading, time, zlib
account = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)
def lets_others_look():
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
lets_others_look()
of_first = 0.07
def first():
    return time.monotonic() % 0.1 < of_first
def second():
    return not first()
def begun(what=0):
    os.write(account, struct.pack("=dd", time.monotonic(), what))
"""
SPLIT: Final = """
def heavy():
    begun(0)
    while first():
        for i in range(3000):
            i * i  # heavy
def light():
    begun(1)
    while second():
        for i in range(3000):
            i * i  # light
def work():
    while True:
        heavy()  # calls it
        light()
work()
"""
THREADS: Final = """
block = bytes(1 << 20)
def hashes():
    begun()
    while True:
        hashlib.sha256(block)  # releases the interpreter
def sleeps():
    while True:
        time.sleep(2)
for name, does in (("hasher 1", hashes), ("sleeper 1", sleeps)):
    threading.Thread(target=does, name=name).start()
"""
ASYNC: Final = """
async def fetch():
    begun(0)
    while first():
        sum(range(3000))
async def store():
    begun(1)
    while second():
        sum(range(3000))
async def main():
    while True:
        await asyncio.gather(fetch(), store())
asyncio.run(main())
"""
LOADER: Final = """
batches = queue.Queue(1)
def load():
    while True:
        time.sleep(0.1 - (time.monotonic() - of_first) % 0.1)
        batches.put(1)
def train():
    begun(1)
    while second():
        sum(range(3000))
def wait_for_batch():
    begun(0)
    batches.get()
threading.Thread(target=load, name="loader").start()
while True:
    wait_for_batch()
    train()
"""
NATIVE: Final = """
of_first = 0.09
block = os.urandom(1 << 16)
def digest():
    begun(0)
    while first():
        hashlib.sha256(block * 8)
def pack():
    begun(1)
    while second():
        zlib.compress(block)
while True:
    digest()
    pack()
"""
FORKS: Final = """
begun()
while True:
    pid = os.fork()
    if not pid:
        sum(range(10_000))
        os._exit(0)
    os.waitpid(pid, 0)
    sum(range(100_000))
"""
CHILDREN: Final = """
import multiprocessing
def crunch():
    lets_others_look()
    begun()
    while True:
        sum(range(3000))
def collect():
    multiprocessing.get_context("fork").Process(target=crunch).start()
    time.sleep(1000)
collect()
"""
DEEP: Final = """
import signal
def down(levels):
    if levels:
        return down(levels - 1)
    while True:
        sum(range(3000))
def deep():
    down(20_000)
sys.setrecursionlimit(100_000)
threading.stack_size(256 << 20)
signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=deep).start())
begun()
while True:
    sum(range(3000))
"""
ENDS: Final = """
begun()
until = time.time() + float(sys.argv[2])
while time.time() < until:
    sum(range(3000))
"""


@dataclass(frozen=True)
class Program:
    """One of them as a file, and its account."""

    path: Path
    account: Path

    @classmethod
    def put(cls, folder: Path, name: str, text: str) -> "Program":
        """Write it down."""
        path = folder / f"{name}.py"
        path.write_text(BEGIN + text)
        account = folder / f"{name}.account"
        account.touch()
        return cls(path, account)

    @property
    def begun(self) -> bool:
        """Whether it is at work."""
        return self.account.stat().st_size > 0

    def share(self, since: float, until: float) -> float:
        """Of that time (monotonic seconds), how much it was at what is first."""
        turns: list[tuple[float, float]] = [*TURNED.iter_unpack(self.account.read_bytes()), (until, 0.0)]
        first = sum(
            max(0.0, min(end, until) - max(begin, since)) for (begin, what), (end, _) in pairwise(turns) if what == 0
        )
        return first / (until - since)

    def line(self, mark: str) -> int:
        """The number of the line that ends so."""
        return next(number for number, line in enumerate(self.path.read_text().splitlines(), 1) if line.endswith(mark))
