"""What `warpmeter doctor` says of the agent's sources of the system: one read of each."""

import time
from collections.abc import Iterator

from warpmeter.cli.finding import Finding
from warpmeter.producers import devices, mounts, numa, perf, rdma, stacks
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample, SourceError
from warpmeter.producers.stacks.trial import trial
from warpmeter.settings import Agent, Settings

EVERYWHERE = ("cpu_counters",)
SOURCES_PAGE = "docs/sources.md says what each needs"
STACKS_PAGE = "docs/stacks.md says what each sampler needs"


def system(settings: Settings) -> Iterator[Finding]:
    """A finding for each of these sources that the settings ask for."""
    for module in (devices, rdma, mounts, numa, perf):
        for source in module.sources(settings.agent, Attribution()):
            yield examined(source)
    if settings.agent.stacks:
        yield sampled(settings.agent)


def sampled(agent: Agent) -> Finding:
    """Which samplers of stacks may sample, and what the others lack. One is enough, unless it was denied."""
    told = trial(agent)
    well = [health.subject for health in told if health.state == "ok"]
    seen = [f"{' and '.join(well)} can sample"] if well else []
    seen += [f"{health.subject} {health.state}: {health.why}" for health in told if health.state != "ok"]
    fine = bool(well) and all(health.state in ("ok", "unsupported") for health in told)
    return Finding(stacks.NAME, "ok" if fine else "warning", "; ".join(seen), "" if fine else STACKS_PAGE)


def examined(source: AnySource) -> Finding:
    """Read it once. What this host does not have is no trouble, save what every host may have."""
    try:
        reading = source.parse(Sample(time.time(), time.monotonic(), source.period_s, source.read()), None)
    except SourceError as error:
        lacking = error.state == "unsupported"
        return Finding(
            source.name,
            "ok" if lacking and source.name not in EVERYWHERE else "warning",
            f"{error.state}: {error}",
            "" if lacking else SOURCES_PAGE,
        )
    except OSError as error:
        return Finding(source.name, "failed", str(error), SOURCES_PAGE)
    finally:
        source.close()
    return _told(source, reading)


def _told(source: AnySource, reading: Reading) -> Finding:
    trouble = [health for health in reading.health if health.state not in ("ok", "unsupported")]
    count = len(reading.rows)
    seen = f"{count} device{'s' * (count != 1)}" if count else "can be read"
    if not trouble:
        return Finding(source.name, "ok", seen)
    told = "; ".join(f"{health.subject} {health.state}: {health.why}" for health in trouble)
    return Finding(source.name, "warning", f"{seen}; {told}", SOURCES_PAGE)
