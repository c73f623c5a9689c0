"""Kineto's datagrams, both ways: a header of 40 bytes and a payload, integers in the machine's own byte order.

As libkineto's IPC client of PyTorch 2.x sends and reads them. What comes may be from anybody: nothing in it is believed
before its length is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

HEADER: Final = Struct("=Q32s")
"""Bytes of the payload (`size_t`), and the message's type, filled up with NUL."""
CONTEXT: Final = Struct("=iiq")
"""GPU, pid, number of the job."""
POLL: Final = Struct("=iiq")
"""Kinds wanted, count of pids, number of the job; the pids follow."""
PID: Final = Struct("=i")
QUESTION: Final = Struct("=ii")
"""Pid, and whether it is that of who asks."""
WHO: Final = b"warpmeter.who"
"""Our own kind of datagram, which no client of Kineto sends: `warpmeter run` and `doctor` ask who is registered."""

EVENTS: Final = 1
ACTIVITIES: Final = 2
PIDS_MAX: Final = 64
"""Kineto tells at most ten: its own and those of its ancestors."""
DATAGRAM_MAX: Final = HEADER.size + POLL.size + PIDS_MAX * PID.size


class WireError(ValueError):
    """A datagram that no client of Kineto sends; the message says what is wrong with it."""


@dataclass(frozen=True)
class Context:
    """A process says that it is there. `job`: SLURM_JOB_ID, 0 without one."""

    gpu: int
    pid: int
    job: int


@dataclass(frozen=True)
class Poll:
    """A process asks whether something is wanted of it.

    `kinds`: bits of EVENTS and ACTIVITIES; 0 while it traces. `pids`: its own in its namespace, then its ancestors'.
    """

    kinds: int
    job: int
    pids: tuple[int, ...]

    @property
    def tracing(self) -> bool:
        """It is at work on a trace, and wants nothing else meanwhile."""
        return self.kinds == 0


@dataclass(frozen=True)
class Question:
    """Who of this process and its descendants is registered? `own`: it is who asks, by the name it has for itself."""

    pid: int
    own: bool


def parse(datagram: bytes) -> Context | Poll | Question:
    """What a process sent; raises WireError."""
    if len(datagram) < HEADER.size:
        raise WireError(f"{len(datagram)} bytes, fewer than a header")
    size, raw = HEADER.unpack_from(datagram)
    payload = datagram[HEADER.size :]
    if size != len(payload):
        raise WireError(f"a header of {size} bytes before {len(payload)}")
    match raw.partition(b"\0")[0]:
        case b"ctxt":
            return _context(payload)
        case b"req":
            return _poll(payload)
        case kind if kind == WHO:
            return _question(payload)
        case kind:
            raise WireError(f"type {kind!r}")


def _context(payload: bytes) -> Context:
    if len(payload) != CONTEXT.size:
        raise WireError(f"a context of {len(payload)} bytes")
    gpu, pid, job = CONTEXT.unpack(payload)
    return Context(gpu, pid, job)


def _poll(payload: bytes) -> Poll:
    if len(payload) < POLL.size:
        raise WireError(f"a poll of {len(payload)} bytes")
    kinds, count, job = POLL.unpack_from(payload)
    if not 1 <= count <= PIDS_MAX or len(payload) != POLL.size + count * PID.size:
        raise WireError(f"{count} pids in {len(payload) - POLL.size} bytes")
    if kinds & ~(EVENTS | ACTIVITIES):
        raise WireError(f"kinds {kinds}")
    return Poll(kinds, job, tuple(pid for (pid,) in PID.iter_unpack(payload[POLL.size :])))


def _question(payload: bytes) -> Question:
    if len(payload) != QUESTION.size:
        raise WireError(f"a question of {len(payload)} bytes")
    pid, own = QUESTION.unpack(payload)
    if pid <= 0 or own not in (0, 1):
        raise WireError(f"a question about {pid}")
    return Question(pid, bool(own))


def question(asked: Question) -> bytes:
    """As it is asked."""
    return _message(WHO, QUESTION.pack(asked.pid, int(asked.own)))


def question_reply(pids: Sequence[int]) -> bytes:
    """How many are registered, and the first of them, by the host's numbers."""
    told = pids[:PIDS_MAX]
    return _message(WHO, PID.pack(len(pids)) + b"".join(PID.pack(pid) for pid in told))


def answered(datagram: bytes) -> tuple[int, tuple[int, ...]]:
    """What an agent replied to a question: how many, and their pids as far as they are told; raises WireError."""
    size, raw = HEADER.unpack_from(datagram) if len(datagram) >= HEADER.size else (-1, b"")
    payload = datagram[HEADER.size :]
    if size != len(payload) or raw.partition(b"\0")[0] != WHO or size < PID.size or size % PID.size:
        raise WireError("no answer to a question")
    count, *pids = (number for (number,) in PID.iter_unpack(payload))
    return count, tuple(pids)


def _message(kind: bytes, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


def context_reply(processes: int) -> bytes:
    """How many processes of that job and GPU are known."""
    return _message(b"ctxt", PID.pack(processes))


def poll_reply(text: str) -> bytes:
    """What to trace, or the empty text: nothing."""
    return _message(b"req", text.encode())
