"""Brings the outputs of ended tasks to the folders that their campaigns' JDLs name, as the campaigns' owners."""

import logging
from dataclasses import dataclass, replace

from gridbridge.campaigns.runner.array_submitter import CampaignArrayCommands, Pair
from gridbridge.campaigns.runner.background_input_carries import may_start_owner_program, pop_ended_programs
from gridbridge.campaigns.runner.submission_failure_events import one_line_error_message
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import UnbroughtOutputRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    is_cluster_probe_due,
    repeat_event_with_longer_pause,
)
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignCluster
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram
from gridbridge.state.state_file import StateFile

CODE = CampaignEventCode.OUTPUT_ERROR
TasksAndAttempts = tuple[tuple[int, int], ...]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunningOutputCarry:
    campaign_and_cluster: CampaignCluster
    attempts: TasksAndAttempts
    program: BackgroundProgram
    is_reported: bool = False  # whether the program's end has been reported


class BackgroundOutputCarries:
    """Brings outputs home; one program runs for each owner and cluster.

    The state file lists the outputs that are still at clusters. After a kill they are brought again, which changes
    nothing at home. A failure is an event, after which the next try waits, each time longer.
    """

    def __init__(
        self,
        database: StateFile,
        acts: CampaignArrayCommands,
        clock: Clock,
        failures: CampaignFailuresSection,
        running: dict[Pair, RunningOutputCarry],
    ) -> None:
        """Take the running programs, which outlive a failed cycle, after which the runner makes a new object."""
        self._database = database
        self._outputs = UnbroughtOutputRows(database)
        self._predecessors = PredecessorRows(database, CampaignRows(database))
        self._events = EventAndSuccessRecordRows(database)
        self._acts = acts
        self._clock = clock
        self._failures = failures
        self._running = running
        self._last_tasks: dict[CampaignCluster, int] = {}  # last task whose outputs were asked for

    def has_new_carry_end(self) -> bool:
        """Say whether a program has ended since the last call, so that a cycle may start early."""
        has_new = False
        for carry in self._running.values():
            if not carry.is_reported and (answer := carry.program.result_if_ended()):
                carry.is_reported = True
                has_new |= answer.status != NOT_NOW
        return has_new

    def continue_output_carries(self) -> None:
        """Record the outputs that have come, and start to bring others."""
        for _, carry, answer in pop_ended_programs(self._running):
            self._record_answer(carry.campaign_and_cluster, carry.attempts, answer)
        for pair, uid in self._outputs.campaigns_and_clusters_with_outputs().items():
            owner = uid, pair[1]
            if may_start_owner_program(owner, self._running) and (attempts := self._next_attempts(pair)):
                try:
                    program = self._acts.start_output_carry(*pair, attempts)
                except GridbridgeError as error:
                    self._record_failure(pair, len(attempts), str(error))
                    continue
                self._running[owner] = RunningOutputCarry(pair, attempts, program)

    def _next_attempts(self, pair: CampaignCluster) -> TasksAndAttempts:
        """Return the next tasks with outputs, in turn; during a pause only tasks that have not been tried."""
        event, after = self._events.find_open_event(CODE, *pair), self._last_tasks.get(pair, -1)
        is_paused = event is not None and not is_cluster_probe_due(event, self._clock.now(), self._failures)
        attempts = self._outputs.unbrought_outputs(*pair, after)
        if not attempts and not is_paused:
            attempts = self._outputs.unbrought_outputs(*pair)
        if attempts:
            self._last_tasks[pair] = attempts[-1][0]
        return attempts

    def _record_answer(self, pair: CampaignCluster, attempts: TasksAndAttempts, answer: CompletedProgram) -> None:
        try:
            missing = self._acts.tasks_without_outputs(answer)
        except GridbridgeError as error:
            self._record_failure(pair, len(attempts), str(error))
            return
        if missing is None:  # an earlier program still runs
            self._last_tasks.pop(pair, None)
            return
        brought = [(task, attempt) for task, attempt in attempts if task not in missing]
        with self._database.transaction():
            self._outputs.remove_brought_outputs(pair[0], brought)
            self._predecessors.release_dependent_tasks(pair[0], [task for task, _ in brought])
        if missing:
            self._record_failure(pair, len(missing), next(iter(missing.values())))
        elif event := self._events.find_open_event(CODE, *pair):
            self._events.store_events([replace(event, closed_at=self._clock.now())])

    def _record_failure(self, pair: CampaignCluster, tasks: int, why: str) -> None:
        why = one_line_error_message(why)
        _log.warning("event=outputs_not_brought campaign=%d at=%s why=%r", *pair, why)
        earlier, now = self._events.find_open_event(CODE, *pair), self._clock.now()
        event = repeat_event_with_longer_pause(earlier, CODE, pair, now, self._failures)
        self._events.store_events([replace(event, tasks=tasks, why=why)])
