"""Brings the outputs of ended tasks to the folders that their campaigns' JDLs name, as the campaigns' owners."""

import logging
from dataclasses import replace

from gridbridge.campaigns.runner.array_submitter import CampaignArrayCommands
from gridbridge.campaigns.runner.background_readings import ProgramsForAttempts, TaskAndAttempt
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
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.state_file import StateFile

CODE = CampaignEventCode.OUTPUT_ERROR
_log = logging.getLogger(__name__)


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
        programs: ProgramsForAttempts,
    ) -> None:
        self._database = database
        self._outputs = UnbroughtOutputRows(database)
        self._predecessors = PredecessorRows(database, CampaignRows(database))
        self._events = EventAndSuccessRecordRows(database)
        self._acts = acts
        self._clock = clock
        self._failures = failures
        self._programs = programs
        self._last_tasks: dict[CampaignCluster, int] = {}  # last task whose outputs were asked for

    def continue_output_carries(self) -> None:
        """Record the outputs that have come, and start to bring others."""
        for _, carry, answer in self._programs.pop_ended():
            self._record_answer(carry.campaign_and_cluster, carry.work, answer)
        for pair, uid in self._outputs.campaigns_and_clusters_with_outputs().items():
            owner = uid, pair[1]
            if self._programs.may_start(owner) and (attempts := self._next_attempts(pair)):
                try:
                    program = self._acts.start_output_carry(*pair, attempts)
                except GridbridgeError as error:
                    self._record_failure(pair, len(attempts), str(error))
                    continue
                self._programs.add(owner, program, pair, attempts)

    def _next_attempts(self, pair: CampaignCluster) -> tuple[TaskAndAttempt, ...]:
        """Return the next tasks with outputs, in turn; during a pause only tasks that have not been tried."""
        event, after = self._events.find_open_event(CODE, *pair), self._last_tasks.get(pair, -1)
        is_paused = event is not None and not is_cluster_probe_due(event, self._clock.now(), self._failures)
        attempts = self._outputs.unbrought_outputs(*pair, after)
        if not attempts and not is_paused:
            attempts = self._outputs.unbrought_outputs(*pair)
        if attempts:
            self._last_tasks[pair] = attempts[-1][0]
        return attempts

    def _record_answer(
        self, pair: CampaignCluster, attempts: tuple[TaskAndAttempt, ...], answer: CompletedProgram
    ) -> None:
        try:
            tasks_without_outputs = self._acts.tasks_without_outputs(answer)
        except GridbridgeError as error:
            self._record_failure(pair, len(attempts), str(error))
            return
        if tasks_without_outputs is None:  # an earlier program still runs
            self._last_tasks.pop(pair, None)
            return
        missing, absent = tasks_without_outputs
        brought = [(task, attempt) for task, attempt in attempts if task not in missing]
        with self._database.transaction():
            self._outputs.remove_brought_outputs(pair[0], brought)
            self._predecessors.release_dependent_tasks(pair[0], [task for task, _ in brought])
            unbrought = [(task, attempt) for task, attempt in attempts if task in missing]
            self._outputs.record_absent_outputs(pair[0], unbrought, absent)
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
