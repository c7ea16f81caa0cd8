"""Carries input files of tasks to clusters as the campaigns' owners, and removes the copies of ended campaigns."""

import logging
from collections.abc import Container, Iterable, Mapping
from math import inf

from gridbridge.campaigns.runner.array_submitter import CampaignArrayCommands, CampaignOwnerUids, OwnerCallPostponement
from gridbridge.campaigns.runner.background_readings import OwnerPrograms
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.errors import GridbridgeError, ParseError
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignCluster, TaskAttempt
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram

REMOVAL_PAUSE_S = 600.0  # after a removal that failed, or did not start because another program of the owner runs
_log = logging.getLogger(__name__)


class InputCarryUnfinished(OwnerCallPostponement):
    """The input files of an array are not at the cluster yet, so a later cycle submits the array."""


class TasksWithoutFiles(GridbridgeError):
    """Files that some tasks of an array need can't be carried to its cluster."""

    def __init__(self, missing: Mapping[int, str]) -> None:
        super().__init__(next(iter(missing.values()), ""))
        self.missing = missing  # {task: reason}


class TasksWithoutInputs(TasksWithoutFiles):
    """Input files are missing, unreadable or changed."""


def _missing_files_of_array(missing: Mapping[int, str], attempts: Iterable[TaskAttempt]) -> dict[int, str]:
    """Return what an owner's answer says of an array's tasks; raise ParseError if the answer is about other tasks only.

    The array's other tasks are resent without loss of an attempt, so each answer must use up an attempt.
    """
    of_array = {attempt.task: missing[attempt.task] for attempt in attempts if attempt.task in missing}
    if missing and not of_array:
        raise ParseError("carry-inputs: the answer is about tasks that are not in the array")
    return of_array


class RemovalPauses:
    """When a removal of copies may start again, after it failed or found another program of the owner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paused_until_s: dict[CampaignCluster, float] = {}  # steady times

    def is_paused(self, pair: CampaignCluster) -> bool:
        return self._paused_until_s.get(pair, -inf) > self._clock.steady_s()

    def begin_pause(self, pair: CampaignCluster) -> None:
        self._paused_until_s[pair] = self._clock.steady_s() + REMOVAL_PAUSE_S


class BackgroundInputCarries:
    """Carries the input files of arrays to clusters, before the arrays are submitted.

    One program runs for each owner and cluster. After a restart a carry begins again, and skips carried files. The
    state file lists the clusters with copies, until the copies are removed.
    """

    def __init__(
        self,
        campaigns: CampaignRows,
        owners: CampaignOwnerUids,
        acts: CampaignArrayCommands,
        clock: Clock,
        remote_clusters: Container[str],
        programs: OwnerPrograms[CampaignArray | None],
    ) -> None:
        self._campaigns = campaigns
        self._owners = owners
        self._copies = InputCarryRows(campaigns.database)
        self._predecessors = PredecessorRows(campaigns.database, campaigns)
        self._acts = acts
        self._remote_clusters = remote_clusters  # clusters that don't see the files of this host
        self._programs = programs
        self._results: dict[tuple[int, int], CompletedProgram] = {}  # of ended carries, by campaign and array
        self._carried: set[tuple[int, int]] = set()  # pairs (campaign, array)
        self._removal_pauses = RemovalPauses(clock)

    def require_inputs_at_cluster(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> None:
        """Return only if an array's input files are at its cluster; start a carry if necessary.

        Raises InputCarryUnfinished until the carry has ended, TasksWithoutInputs, or the carry's error.
        """
        if array.campaign_and_array_number in self._carried or not self._must_carry_inputs(array, attempts):
            return
        self._collect_ended_programs()
        owner = self._owners.uid_of_owner(array.campaign), array.cluster
        if answer := self._results.pop(array.campaign_and_array_number, None):
            if carry := self._acts.timed_input_carry(answer):
                missing = _missing_files_of_array(carry.missing, attempts)
                if campaign := self._campaigns.find_campaign(array.campaign):
                    self._copies.record_carry(campaign, array.cluster, carry)
                words, of = "event=carried array=%d.%d at=%s bytes=%d took_s=%.1f", array.campaign_and_array_number
                _log.info(words, *of, array.cluster, carry.copied_bytes, carry.took_s)
                if missing:
                    raise TasksWithoutInputs(missing)
                self._carried.add(array.campaign_and_array_number)
                return
        elif self._programs.may_start(owner):
            pair = array.campaign, array.cluster
            at_cluster = self._attempts_with_outputs_at_cluster(array, attempts)
            self._copies.record_begun_carry(*pair)
            program = self._acts.start_input_carry(array, attempts, at_cluster)
            self._programs.add(owner, program, pair, array)
            _log.info("event=carry_begins array=%d.%d at=%s", array.campaign, array.number, array.cluster)
        raise InputCarryUnfinished(f"the input files are being carried to {array.cluster}")

    def _attempts_with_outputs_at_cluster(
        self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]
    ) -> tuple[TaskAttempt, ...]:
        """Return the attempts that read outputs of predecessors at their own cluster, before these are at home.

        Raises InputCarryUnfinished if such outputs are at another cluster, until they have been brought home.
        """
        clusters = self._predecessors.clusters_of_unbrought_inputs(
            array.campaign, (attempt.task for attempt in attempts)
        )
        if any(of_task != {array.cluster} for of_task in clusters.values()):
            raise InputCarryUnfinished("outputs of predecessors are being brought home from other clusters")
        return tuple(attempt for attempt in attempts if attempt.task in clusters)

    def _collect_ended_programs(self) -> None:
        """Store the results of all ended programs, so that a carry of a deleted array delays no other array."""
        for _, run, answer in self._programs.pop_ended():
            if run.work:
                self._results[run.work.campaign_and_array_number] = answer
            else:
                self._record_removal(run.campaign_and_cluster, answer)

    def continue_input_removals(self) -> None:
        """Start to remove the copies of ended campaigns; a failed removal is repeated after a pause."""
        self._collect_ended_programs()
        for pair, uid in self._copies.input_copies_of_ended_campaigns().items():
            owner = uid, pair[1]
            if not self._removal_pauses.is_paused(pair) and self._programs.may_start(owner):
                try:
                    program = self._acts.start_input_removal(*pair)
                except GridbridgeError as error:
                    self._pause_removal(pair, str(error))
                else:
                    self._programs.add(owner, program, pair, None)

    def _record_removal(self, pair: CampaignCluster, answer: CompletedProgram) -> None:
        if not answer.status:
            self._copies.forget_input_copies(*pair)
            return
        is_busy = answer.status == NOT_NOW
        self._pause_removal(pair, "" if is_busy else answer.stderr[:200].decode("utf-8", "replace"))

    def _pause_removal(self, pair: CampaignCluster, why: str) -> None:
        self._removal_pauses.begin_pause(pair)
        if why:
            _log.warning("event=inputs_kept campaign=%d at=%s why=%r", *pair, why)

    def _must_carry_inputs(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> bool:
        if array.cluster not in self._remote_clusters or not attempts or is_prologue_or_epilogue_task(attempts[0].task):
            return False
        campaign = self._campaigns.find_campaign(array.campaign)
        return campaign is not None and bool(campaign.jdl.inputs)
