"""Brings the outputs of ended tasks to the folders that their campaigns' JDLs name, as the campaigns' owners."""

import logging
from dataclasses import dataclass, replace

from gridbridge.campaigns.runner.array_submitter import MOST_PROGRAMS, CampaignArrayCommands, Pair
from gridbridge.campaigns.runner.submission_failure_events import one_line_error_message
from gridbridge.campaigns.store.campaign_task_rows import UnbroughtOutputRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    is_cluster_probe_due,
    repeat_event_with_longer_pause,
)
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignCluster
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram
from gridbridge.state.state_file import StateFile

CODE = CampaignEventCode.OUTPUT_ERROR
TasksAndAttempts = tuple[tuple[int, int], ...]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OutputCarry:
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
        self, database: StateFile, acts: CampaignArrayCommands, clock: Clock, failures: CampaignFailuresSection
    ) -> None:
        self._outputs = UnbroughtOutputRows(database)
        self._events = EventAndSuccessRecordRows(database)
        self._acts = acts
        self._clock = clock
        self._failures = failures
        self._running: dict[Pair, _OutputCarry] = {}

    def has_new_carry_end(self) -> bool:
        """Say whether a program has ended since the last call, so that a cycle may start early."""
        ended = [carry for carry in self._running.values() if not carry.is_reported and carry.program.result_if_ended()]
        for carry in ended:
            carry.is_reported = True
        return bool(ended)

    def continue_output_carries(self) -> None:
        """Record the outputs that have come, and start to bring others."""
        for pair, carry in [*self._running.items()]:
            if answer := carry.program.result_if_ended():
                del self._running[pair]
                self._record_answer(carry.campaign_and_cluster, carry.attempts, answer)
        for pair, uid in self._outputs.campaigns_and_clusters_with_outputs().items():
            owner = uid, pair[1]
            event = self._events.find_open_event(CODE, *pair)
            is_paused = event is not None and not is_cluster_probe_due(event, self._clock.now(), self._failures)
            if owner not in self._running and len(self._running) < MOST_PROGRAMS and not is_paused:
                attempts = self._outputs.unbrought_outputs(*pair)
                try:
                    program = self._acts.start_output_carry(*pair, attempts)
                except GridbridgeError as error:
                    self._record_failure(pair, len(attempts), str(error))
                    continue
                self._running[owner] = _OutputCarry(pair, attempts, program)

    def _record_answer(self, pair: CampaignCluster, attempts: TasksAndAttempts, answer: CompletedProgram) -> None:
        try:
            missing = self._acts.tasks_without_files(answer)
        except GridbridgeError as error:
            self._record_failure(pair, len(attempts), str(error))
            return
        if missing is None:  # an earlier program still runs
            return
        self._outputs.remove_brought_outputs(
            pair[0], [(task, attempt) for task, attempt in attempts if task not in missing]
        )
        if missing:
            self._record_failure(pair, len(missing), next(iter(missing.values())))
        elif event := self._events.find_open_event(CODE, *pair):
            self._events.store_events([replace(event, closed_at=self._clock.now())])

    def _record_failure(self, pair: CampaignCluster, tasks: int, why: str) -> None:
        _log.warning("event=outputs_not_brought campaign=%d at=%s why=%r", *pair, why)
        earlier, now = self._events.find_open_event(CODE, *pair), self._clock.now()
        event = repeat_event_with_longer_pause(earlier, CODE, pair, now, self._failures)
        self._events.store_events([replace(event, tasks=tasks, why=one_line_error_message(why))])
