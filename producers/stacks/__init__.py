"""Sampled stacks: where the CPU time of Python processes of jobs goes, and with perf that of the whole host.

Samplers are programs that run beside the agent for a part of each minute. `rotation` says whom a turn samples and
`backoff` how often; `pyspy` and `perf` know those programs, `sampler` runs them as a `child`; `rows` makes rows of what
they found, `words` says of whom they found nothing, and why. `trial` asks whether they may at all.
"""

from collections.abc import Sequence
from typing import Final

from warpmeter.producers.source import AnySource, Attribution
from warpmeter.producers.stacks.source import StackSource
from warpmeter.settings import Agent

NAME: Final = StackSource.name


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:
    """The source of sampled stacks, unless the settings leave it out."""
    return (StackSource(agent, attribution),) if agent.stacks else ()
