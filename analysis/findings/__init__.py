"""What stands out in one trace, in words: each finding with its figure, its evidence, and what to do about it.

A rule looks at figures of other parts and says one thing or nothing. Thresholds are constants of the rules' modules,
chosen so that a GPU that is well fed and well used gives an empty list.
"""

from typing import Final

from warpmeter.analysis.findings import device, host
from warpmeter.analysis.findings.ranks import job_findings
from warpmeter.analysis.findings.seen import Evidence, Finding, Rule, Seen

__all__ = ["RULES", "Evidence", "Finding", "Rule", "Seen", "findings", "job_findings"]

RULES: Final[tuple[Rule, ...]] = (
    host.input_bound,
    host.host_sync,
    host.allocator_churn,
    host.launch_bound,
    host.host_bound,
    host.clocks_apart,
    device.exposed_communication,
    device.exposed_memory,
    device.pageable_copies,
    device.device_wait,
    device.small_kernels,
    device.low_occupancy,
    device.no_tensor_cores,
    device.layout_conversion,
    device.slow_products,
    device.uneven_steps,
    device.memory_full,
)


def findings(seen: Seen) -> list[Finding]:
    """All that the rules say, what concerns most time first."""
    found = [finding for rule in RULES if (finding := rule(seen)) is not None]
    return sorted(found, key=lambda each: (-each.cost_ns, each.id))
