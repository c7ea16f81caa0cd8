"""Decide when a campaign's prologue and epilogue run at a cluster; each runs once (CiGri's JDL, v3)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    ClusterClosureOrProbe,
    OpenCampaignEventsInCycle,
    new_campaign_event,
    repeat_event_with_longer_pause,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    CampaignArray,
    CampaignCluster,
    CampaignState,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignPrologueOrEpilogueStart,
    LastPrologueOrEpilogueAttempt,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, PROLOGUE, STEPS

MAX_EPILOGUE_ATTEMPTS = 3  # the epilogue is not tried again after the cluster ended this many attempts
ENDED_BY_CLUSTER = {  # outcomes that the prologue or epilogue did not cause, each with a sentence for users
    TaskAttemptOutcome.WIPED: "the last attempt was deleted",
    TaskAttemptOutcome.MOVED: "",
    TaskAttemptOutcome.PREEMPTED: "the last attempt was preempted",
    TaskAttemptOutcome.SITE_FAULT: "the host of the last attempt was lost",
}


class PrologueAndEpilogueProgress:
    """The prologues and epilogues of all campaigns, including ends that the present cycle has found.

    A failed prologue closes the cluster until a probe repeats it; a preempted or lost prologue has not failed. The
    epilogue starts when all tasks have ended, even in a cancelled campaign.
    """

    def __init__(self, situation: CampaignCycleSituation) -> None:
        ended = {(attempt.campaign, attempt.array): attempt for attempt in situation.stepped}
        self._clusters = {campaign.number: campaign.jdl.clusters for campaign in situation.campaigns}
        self._situation = situation
        self._now = [
            replace(phase, outcome=end.outcome, exit_status=end.exit_status)
            if (end := ended.get((phase.campaign, phase.array)))
            else phase
            for phase in situation.steps
        ]
        self._last = {(phase.campaign, phase.cluster, phase.step): phase for phase in self._now}
        self._arrays = {(phase.campaign, phase.array) for phase in situation.steps}
        self._just = ended.keys()
        self._alive = situation.uncancelled_campaigns
        self._winding_up = {
            campaign.number for campaign in situation.campaigns if campaign.awaits_epilogues_after_cancel
        }
        self._over = {campaign.number for campaign in situation.campaigns if campaign.state is CampaignState.TERMINATED}
        self._of_epilogues = {(phase.campaign, phase.array) for phase in situation.steps if phase.step == EPILOGUE}

    def exclude_prologue_and_epilogue_arrays(self, arrays: Iterable[CampaignArray]) -> tuple[CampaignArray, ...]:
        return tuple(array for array in arrays if array.campaign_and_array_number not in self._arrays)

    def must_array_still_run(self, array: CampaignArray) -> bool:
        """Say whether an array must still run; a cancelled campaign needs only its epilogues."""
        return array.campaign in self._alive or (array.campaign in self._winding_up and self.is_epilogue_array(array))

    def is_epilogue_array(self, array: CampaignArray) -> bool:
        return array.campaign_and_array_number in self._of_epilogues

    def clusters_running_prologue_or_epilogue(self) -> dict[CampaignCluster, ClusterClosureOrProbe]:
        return {
            phase.campaign_and_cluster: ClusterClosureOrProbe.CLOSED
            for phase in self._now
            if phase.outcome is TaskAttemptOutcome.PENDING
        }

    def clusters_that_need_prologue(self) -> frozenset[CampaignCluster]:
        pairs = ((number, name) for number, of in self._clusters.items() for name in of)
        return frozenset(pair for pair in pairs if not self._has_prologue_succeeded(*pair))

    def split_sends_by_prologue(
        self, sends: Iterable[PlannedCampaignTaskSend]
    ) -> tuple[tuple[PlannedCampaignTaskSend, ...], tuple[CampaignPrologueOrEpilogueStart, ...]]:
        """Return the tasks to send now, and the prologues to start in place of all other tasks."""
        going, early = list[PlannedCampaignTaskSend](), list[PlannedCampaignTaskSend]()
        for send in sends:
            (going if self._has_prologue_succeeded(send.campaign, send.cluster) else early).append(send)
        return tuple(going), tuple(
            self._next_prologue_or_epilogue_attempt(send.campaign, send.cluster, PROLOGUE) for send in early
        )

    def end_campaigns_or_start_epilogues(
        self, campaigns: Iterable[int]
    ) -> tuple[tuple[int, ...], tuple[CampaignPrologueOrEpilogueStart, ...]]:
        """Return the campaigns that end now, and the epilogues to start for others; running prologues are awaited."""
        ending, steps, preparing = [], [], self.clusters_running_prologue_or_epilogue()
        for number in campaigns:
            unfinished = [
                name for name in self._clusters_that_need_epilogue(number) if not self._is_epilogue_over(number, name)
            ]
            ending += [] if unfinished else [number]
            steps += [
                self._next_prologue_or_epilogue_attempt(number, name, EPILOGUE)
                for name in unfinished
                if (number, name) not in preparing
            ]
        return tuple(ending), tuple(steps)

    def waiting_unneeded_prologues(self, campaigns: Iterable[int]) -> tuple[CampaignArray, ...]:
        return tuple(
            array
            for array in self._list_unneeded_prologues(campaigns)
            if array.campaign_and_array_number in self._situation.idle_steps
        )

    def unsubmitted_unneeded_prologues(self, campaigns: Iterable[int]) -> tuple[CampaignArray, ...]:
        return tuple(
            array for array in self._list_unneeded_prologues(campaigns) if array.state is ArraySubmissionState.INTENDED
        )

    def _list_unneeded_prologues(self, campaigns: Iterable[int]) -> Iterator[CampaignArray]:
        ended = self._over.union(campaigns)
        pending = {
            (phase.campaign, phase.array)
            for phase in self._now
            if phase.step == PROLOGUE and phase.outcome is TaskAttemptOutcome.PENDING and phase.campaign in ended
        }
        return (array for array in self._situation.arrays if array.campaign_and_array_number in pending)

    def update_prologue_and_epilogue_events(self, book: OpenCampaignEventsInCycle) -> OpenCampaignEventsInCycle:
        """Open an event for each failed prologue or epilogue; a successful prologue closes its event."""
        campaigns = self._winding_up.union(
            campaign.number for campaign in self._situation.campaigns if campaign.state.is_alive
        )
        for phase in self._now:
            if (phase.campaign, phase.array) not in self._just or phase.campaign not in campaigns:
                continue
            if phase.step == PROLOGUE and phase.campaign in self._alive:
                self._update_event_of_ended_prologue(book, phase)
            elif (
                phase.step == EPILOGUE
                and phase.outcome is not TaskAttemptOutcome.SUCCESS
                and _is_prologue_or_epilogue_over(phase)
            ):
                code, at = CampaignEventCode.EPILOG_EXIT_ERROR, self._situation.at
                event = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, *phase.campaign_and_cluster, at)
                why = ENDED_BY_CLUSTER.get(phase.outcome, "")
                book.add_or_replace_event(replace(event, exit_status=phase.exit_status, why=why))
        return book

    def _update_event_of_ended_prologue(
        self, book: OpenCampaignEventsInCycle, phase: LastPrologueOrEpilogueAttempt
    ) -> None:
        code, at = CampaignEventCode.SETUP_ERROR, self._situation.at
        event = book.find_event(code, *phase.campaign_and_cluster)
        if phase.outcome is TaskAttemptOutcome.SUCCESS:
            book.close_event(event, at)
        elif phase.outcome not in ENDED_BY_CLUSTER:
            begun = event or repeat_event_with_longer_pause(
                None, code, phase.campaign_and_cluster, at, self._situation.failures
            )
            book.add_or_replace_event(replace(begun, last_at=at))

    def _has_prologue_succeeded(self, campaign: int, cluster: str) -> bool:
        if not self._clusters[campaign][cluster].prologue:
            return True
        prologue, after = (self._last.get((campaign, cluster, step)) for step in STEPS)
        if prologue is None or prologue.outcome is not TaskAttemptOutcome.SUCCESS:
            return False
        return after is None or after.array <= prologue.array

    def _next_prologue_or_epilogue_attempt(
        self, campaign: int, cluster: str, step: str
    ) -> CampaignPrologueOrEpilogueStart:
        previous = self._last.get((campaign, cluster, step))
        attempt = previous.attempt + 1 if previous else 1
        return CampaignPrologueOrEpilogueStart(campaign=campaign, cluster=cluster, step=step, attempt=attempt)

    def _clusters_that_need_epilogue(self, campaign: int) -> Iterator[str]:
        visited = self._situation.last_arrays.get(campaign, {})
        for name, request in self._clusters[campaign].items():
            is_there = request.epilogue and name in visited and name in self._situation.asked
            if is_there and not self._has_prologue_never_started(campaign, name):
                yield name

    def _has_prologue_never_started(self, campaign: int, cluster: str) -> bool:
        prologue = self._last.get((campaign, cluster, PROLOGUE))
        if prologue is None or prologue.outcome is not TaskAttemptOutcome.MOVED:
            return False
        return prologue.attempt == 1 and prologue.array >= self._situation.last_arrays[campaign][cluster]

    def _is_epilogue_over(self, campaign: int, cluster: str) -> bool:
        epilogue = self._last.get((campaign, cluster, EPILOGUE))
        last = self._situation.last_arrays[campaign][cluster]
        return epilogue is not None and _is_prologue_or_epilogue_over(epilogue) and epilogue.array >= last


def _is_prologue_or_epilogue_over(phase: LastPrologueOrEpilogueAttempt) -> bool:
    if phase.outcome is TaskAttemptOutcome.PENDING:
        return False
    return phase.outcome not in ENDED_BY_CLUSTER or phase.attempt >= MAX_EPILOGUE_ATTEMPTS
