"""Predecessors of campaigns: the earlier campaigns of the same owner for which a campaign waits."""

from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.published_status_and_reports import number_with_noun


class PredecessorCondition(StrEnum):
    OK = "ok"  # all tasks of the predecessor have succeeded
    ENDED = "ended"
    SAME = "same"  # a task waits until the predecessor's task of the same number has succeeded

    @property
    def is_of_whole_campaign(self) -> bool:
        return self is not PredecessorCondition.SAME


class PredecessorFailureAction(StrEnum):
    """What happens to a campaign whose predecessor has failed."""

    WAIT = "wait"  # until the predecessor's failed tasks are retried
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPredecessor:
    number: int = 0  # 0: the owner's newest campaign with this name; the service stores the number
    name: str = ""
    condition: PredecessorCondition = PredecessorCondition.OK

    @property
    def jdl_text(self) -> str:
        """The predecessor as a JDL names it, such as `12:ended`."""
        return f"{self.number or self.name}:{self.condition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredecessorProgress:
    """How far a predecessor has come."""

    number: int
    name: str = ""
    tasks: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    is_unfinished: bool = False  # the predecessor may still send tasks, or has tasks at clusters
    is_cancelled: bool = False
    has_outputs_elsewhere: bool = False  # not all outputs are in `outputs_to` yet

    @property
    def tasks_not_succeeded(self) -> int:
        return self.tasks - self.succeeded

    @property
    def has_failed(self) -> bool:
        """Whether the predecessor has ended, and not all its tasks have succeeded."""
        return not self.is_unfinished and (self.is_cancelled or self.tasks_not_succeeded > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedPredecessor:
    """A predecessor for which a campaign, or some of its tasks, waits."""

    condition: PredecessorCondition
    progress: PredecessorProgress

    def is_met(self, awaiting: int) -> bool:
        """Say whether the campaign waits no longer.

        `awaiting` counts the campaign's tasks that wait for the predecessor's task with the same number.
        """
        match self.condition:
            case PredecessorCondition.ENDED:
                return not self.progress.is_unfinished
            case PredecessorCondition.SAME:
                return not awaiting
            case _:
                is_open = self.progress.is_unfinished or self.progress.has_outputs_elsewhere
                return not is_open and not self.progress.has_failed

    @property
    def holds_whole_campaign(self) -> bool:
        """Whether no task of the campaign may be sent."""
        return self.condition.is_of_whole_campaign

    @property
    def has_failed(self) -> bool:
        return self.condition is not PredecessorCondition.ENDED and self.progress.has_failed


def describe_predecessor_progress(progress: PredecessorProgress) -> str:
    """Describe a predecessor, for example `campaign 12 (reads): 30 of 100 tasks succeeded, 2 failed`."""
    failed = f", {progress.failed} failed" if progress.failed else ""
    cancelled = f", {progress.cancelled} were cancelled" if progress.cancelled else ""
    if progress.is_cancelled:
        cancelled = ", and the campaign was cancelled"
    elif progress.has_outputs_elsewhere:
        cancelled = ", and not all outputs have been brought home"
    tasks = f"{progress.succeeded} of {number_with_noun(progress.tasks, 'task')} succeeded"
    return f"campaign {progress.number} ({progress.name}): {tasks}{failed}{cancelled}"


def describe_unmet_predecessor(predecessor: AwaitedPredecessor) -> str:
    waits = "waits for" if predecessor.holds_whole_campaign else "each task waits for the task of the same number of"
    return f"{waits} {describe_predecessor_progress(predecessor.progress)}"
