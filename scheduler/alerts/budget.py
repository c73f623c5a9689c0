"""How much alerts may capture: pure. What was asked for in the last day, and a capture more; why not, in words.

A capture that traced nobody (nothing asks for captures there, say) counts for the pause between two of a job alone:
nothing was spent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.settings import Trigger

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Spent:
    """A capture that an alert asked for. `subject`: the job, or the host where no job is known. `vain`: it traced
    nobody.
    """

    capture_id: str
    rule: str
    subject: str
    at: float
    vain: bool = False


@dataclass(frozen=True)
class Budget:
    """What a trigger may still do at `now`. `most`: of all triggers together, in a day."""

    spent: Sequence[Spent]
    now: float
    most: int

    def refusal(self, trigger: Trigger, rule: str, subject: str) -> str:
        """Why there is no capture now, '' when there may be one."""
        day = [each for each in self.spent if each.at > self.now - DAY_S]
        counted = [each for each in day if not each.vain]
        last = max((each.at for each in day if each.subject == subject), default=None)
        if last is not None and self.now - last < trigger.cooldown_s:
            ago = f"{subject} was captured for an alert {self.now - last:.0f} s ago"
            return f"{ago}, and is again after {trigger.cooldown_s:.0f} s at the earliest"
        limits: Iterable[tuple[int, int, str]] = (
            (sum(each.subject == subject for each in counted), trigger.per_job_per_day, f"of {subject}"),
            (sum(each.rule == rule for each in counted), trigger.per_day, f"for {rule}"),
            (len(counted), self.most, "for alerts"),
        )
        over = (f"the budget of {most} captures a day {of} is used up" for used, most, of in limits if used >= most)
        return next(over, "")
