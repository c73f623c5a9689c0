"""Which process trees are jobs: the expression in force and why it is this one."""

from dataclasses import dataclass
from typing import Final

from warpmeter.producers import files
from warpmeter.settings import Agent

SYSTEMD_PART: Final = "systemd.*/"
ANYWHERE: Final = r"([a-z]*sh|containerd-shim-runc-v2|conmon)/.*python[0-9.]*$"
DEFAULT: Final = SYSTEMD_PART + ANYWHERE


@dataclass(frozen=True)
class Pattern:
    """The expression, searched for in a process tree id, and why it is in force."""

    text: str
    why: str


def pattern_in_force(agent: Agent) -> Pattern:
    """The settings' expression, else the default; without its `systemd` part where the first process is another."""
    if agent.job_pattern:
        return Pattern(agent.job_pattern, "agent.job_pattern")
    first = (files.optional(files.below(agent.root, "proc", "1", "comm")) or b"").decode(errors="replace").strip()
    if first == "systemd":
        return Pattern(DEFAULT, "the default")
    return Pattern(ANYWHERE, f"the default without {SYSTEMD_PART!r}: the first process is {first!r}")
