"""Carries checkpoints of tasks to the clusters to which the tasks were sent, as the campaigns' owners."""

import logging
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import replace
from itertools import groupby, islice

from gridbridge.campaigns.runner.array_submitter import CampaignArrayCommands, CampaignOwnerUids, Pair
from gridbridge.campaigns.runner.background_input_carries import InputCarryUnfinished, RemovalPauses, TasksWithoutFiles
from gridbridge.campaigns.runner.background_readings import CheckpointWork, OwnerProgram, OwnerPrograms
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignCluster, TaskAttempt
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarry, CheckpointCarryState
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.state_file import StateFile

CODE = CampaignEventCode.CHECKPOINT_ERROR
MOST_AT_ONCE = 100  # checkpoints that a program carries or removes
MOST_TRIES = 3  # of a carry, if its program fails
_log = logging.getLogger(__name__)


class TasksWithoutCheckpoints(TasksWithoutFiles): ...


class BackgroundCheckpointCarries:
    """Carries the checkpoints of an array's tasks before the array is submitted.

    The state file lists the allowed carries. After a kill a carry begins again, and skips what has arrived. The first
    copy stays until the task has succeeded or has a newer checkpoint.
    """

    def __init__(
        self,
        database: StateFile,
        owners: CampaignOwnerUids,
        array_commands: CampaignArrayCommands,
        clock: Clock,
        remote_clusters: Container[str],
        programs: OwnerPrograms[CheckpointWork],
    ) -> None:
        self._carries = CheckpointCarryRows(database)
        self._rates = InputCarryRows(database)
        self._events = EventAndSuccessRecordRows(database)
        self._owners = owners
        self._array_commands = array_commands
        self._clock = clock
        self._remote_clusters = remote_clusters  # clusters that are reached by ssh
        self._programs = programs
        # of ended carries, by campaign and array
        self._answers: dict[tuple[int, int], tuple[tuple[CheckpointCarry, ...], CompletedProgram]] = {}
        self._failures = Counter[tuple[int, int]]()  # of programs, by campaign and array
        self._removal_pauses = RemovalPauses(clock)

    def start_carries_and_require_checkpoints(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> None:
        """Return only if an array's cluster has the checkpoints that may be carried there; start a carry if necessary.

        Raises InputCarryUnfinished until the carries have ended, or TasksWithoutCheckpoints.
        """
        if array.is_of_copies or all(attempt.attempt == 1 for attempt in attempts):
            return
        self._take_answers()
        if answered := self._answers.pop(array.campaign_and_array_number, None):
            self._record_carry(array, *answered)
        tasks = {attempt.task for attempt in attempts}
        allowed = self._carries.allowed_carries(array.campaign, array.cluster)
        carries = [carry for carry in allowed if carry.task in tasks]
        if not carries:
            return
        owner = self._owners.uid_of_owner(array.campaign), array.cluster
        if self._programs.may_start(owner):
            of_source = (carry for carry in carries if carry.source == carries[0].source)
            self._start_carry(owner, array, tuple(islice(of_source, MOST_AT_ONCE)))
        raise InputCarryUnfinished(f"checkpoints are being carried to {array.cluster}")

    def continue_removals(self) -> None:
        """Start to remove the copies that no task needs any more; a failed removal is repeated after a pause."""
        self._take_answers()
        by_source = groupby(self._carries.unneeded_copies(), key=lambda copy: (copy[0].campaign, copy[0].source))
        for pair, copies in by_source:
            some = [*islice(copies, MOST_AT_ONCE)]
            owner = some[0][1], pair[1]
            if not self._removal_pauses.is_paused(pair) and self._programs.may_start(owner):
                carries = tuple(carry for carry, _ in some)
                try:
                    program = self._array_commands.start_checkpoint_removal(*pair, _attempts(carries))
                except GridbridgeError as error:
                    self._pause_removal(pair, error)
                else:
                    self._programs.add(owner, program, pair, (None, carries))

    def _start_carry(self, owner: Pair, array: CampaignArray, carries: tuple[CheckpointCarry, ...]) -> None:
        """Start a carry; raises TasksWithoutCheckpoints if the program can't start."""
        pair, source = (array.campaign, array.cluster), carries[0].source
        try:
            program = self._array_commands.start_checkpoint_carry(
                array.campaign, source, array.cluster, _attempts(carries)
            )
        except GridbridgeError as error:
            raise TasksWithoutCheckpoints(dict.fromkeys((carry.task for carry in carries), str(error))) from error
        self._programs.add(owner, program, pair, (array, carries))
        numbers = ",".join(str(carry.task) for carry in carries)
        message = "event=checkpoint_carry_begins campaign=%d tasks=%s from=%s to=%s carry_s=%.0f lost_s=%.0f"
        _log.info(message, array.campaign, numbers, source, array.cluster, carries[0].carry_s, carries[0].lost_s)

    def _take_answers(self) -> None:
        for _, run, answer in self._programs.pop_ended():
            array, carries = run.work
            if array:
                self._answers[array.campaign_and_array_number] = carries, answer
            else:
                self._record_removal(run, answer)

    def _record_carry(
        self, array: CampaignArray, carries: tuple[CheckpointCarry, ...], answer: CompletedProgram
    ) -> None:
        """Record what has arrived; raises TasksWithoutCheckpoints for the others."""
        tasks = [carry.task for carry in carries]
        try:
            carried = self._array_commands.timed_input_carry(answer)
        except GridbridgeError as error:
            self._failures[array.campaign_and_array_number] += 1
            if self._failures[array.campaign_and_array_number] < MOST_TRIES:
                _log.warning("event=checkpoint_carry_repeated campaign=%d why=%r", array.campaign, str(error))
                return
            raise TasksWithoutCheckpoints(dict.fromkeys(tasks, str(error))) from error
        if carried is None:  # another program of the owner carries
            return
        arrived = [task for task in tasks if task not in carried.missing]
        self._carries.record_carry_states(array.campaign, array.cluster, arrived, CheckpointCarryState.CARRIED)
        for cluster in (carries[0].source, array.cluster):
            if cluster in self._remote_clusters:
                self._rates.record_carry_rate(self._owners.uid_of_owner(array.campaign), cluster, carried)
        if carried.missing:
            raise TasksWithoutCheckpoints(carried.missing)
        if event := self._events.find_open_event(CODE, array.campaign, array.cluster):
            self._events.store_events([replace(event, closed_at=self._clock.now())])

    def _record_removal(self, run: OwnerProgram[CheckpointWork], answer: CompletedProgram) -> None:
        try:
            removed = self._array_commands.timed_input_carry(answer)
        except GridbridgeError as error:
            self._pause_removal(run.campaign_and_cluster, error)
            return
        if removed is None:  # another program of the owner works
            self._removal_pauses.begin_pause(run.campaign_and_cluster)
        else:
            self._carries.record_removed_copies(*run.campaign_and_cluster, _attempts(run.work[1]))

    def _pause_removal(self, pair: CampaignCluster, error: GridbridgeError) -> None:
        self._removal_pauses.begin_pause(pair)
        _log.warning("event=checkpoints_kept campaign=%d at=%s why=%r", *pair, str(error))


def _attempts(carries: Iterable[CheckpointCarry]) -> tuple[tuple[int, int], ...]:
    return tuple((carry.task, carry.attempt) for carry in carries)
