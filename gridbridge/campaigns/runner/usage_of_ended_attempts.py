"""Reads memory and written bytes of ended attempts, as their owner, at clusters whose accounting lacks them."""

import logging
from collections import defaultdict, deque
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Protocol

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import CampaignOwnerUids, Pair
from gridbridge.campaigns.runner.background_input_carries import may_start_owner_program, pop_ended_programs
from gridbridge.decisions.campaigns.task_usage_warnings import COUNTED, FAILURES
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignCluster, TaskAttempt
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram

PAUSE_S = 30.0  # between two programs of an owner at a cluster, so that each program reads many attempts
MOST_AT_ONCE = 1000  # attempts in one call
MOST_WAITING = 10_000  # attempts of a campaign at a cluster; the oldest are dropped
_log = logging.getLogger(__name__)


class UsageCommands(Protocol):
    """The commands of module `array_commands_as_owner` that read usage."""

    def start_record_reading(
        self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram:
        """Start to read the usage of (task, attempt) pairs at a cluster."""

    def usage_of_attempts(self, answer: CompletedProgram, /) -> dict[tuple[int, int], tuple[int, int]]:
        """Return kB of memory and written kB by (task, attempt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUsageReading:
    program: BackgroundProgram
    campaign_and_cluster: CampaignCluster
    attempts: tuple[TaskAttempt, ...]


class UsageOfEndedAttempts:
    """Reads usage after the ends of attempts were recorded, so that a slow or failed reading delays no end.

    At most one program runs for each owner and cluster. Nothing is stored: after a kill the usage of attempts that were
    not read stays unknown, as after a failed reading.
    """

    def __init__(
        self,
        owners: CampaignOwnerUids,
        clusters: Container[str],
        clock: Clock,
        running: dict[Pair, RunningUsageReading],
        acts: UsageCommands = array_commands_as_owner,
    ) -> None:
        """Take the clusters whose accounting lacks memory, and the running programs, which outlive a failed cycle."""
        self._owners = owners
        self._clusters = clusters
        self._clock = clock
        self._running = running
        self._acts = acts
        self._waiting = defaultdict[CampaignCluster, deque[TaskAttempt]](lambda: deque(maxlen=MOST_WAITING))
        self._paused_until_s: dict[Pair, float] = {}

    def take_measured_attempts(self) -> tuple[MeasuredTaskAttempt, ...]:
        """Return the attempts that have been read since the last call."""
        return tuple(
            measured
            for _, reading, answer in pop_ended_programs(self._running)
            for measured in self._measured_attempts(reading, answer)
        )

    def start_readings(self, ended: Iterable[tuple[TaskAttempt, str]]) -> None:
        """Start to read the usage of ended attempts, each with its cluster, and of earlier ones that still wait."""
        for attempt, cluster in ended:
            if cluster in self._clusters and attempt.outcome in COUNTED and attempt.max_rss_kb is None:
                self._waiting[attempt.campaign, cluster].append(attempt)
        for pair in [*self._waiting]:
            owner, now_s = (self._owners.uid_of_owner(pair[0]), pair[1]), self._clock.steady_s()
            if self._paused_until_s.get(owner, now_s) <= now_s and may_start_owner_program(owner, self._running):
                self._paused_until_s[owner] = now_s + PAUSE_S
                self._start_reading(owner, pair)

    def _start_reading(self, owner: Pair, pair: CampaignCluster) -> None:
        waiting = self._waiting[pair]
        attempts = tuple(waiting.popleft() for _ in range(min(len(waiting), MOST_AT_ONCE)))
        if not waiting:
            del self._waiting[pair]
        try:
            program = self._acts.start_record_reading(*pair, [(attempt.task, attempt.attempt) for attempt in attempts])
        except GridbridgeError as error:
            _log_failed_reading(pair, error)
            return
        self._running[owner] = RunningUsageReading(program=program, campaign_and_cluster=pair, attempts=attempts)

    def _measured_attempts(
        self, reading: RunningUsageReading, answer: CompletedProgram
    ) -> Iterable[MeasuredTaskAttempt]:
        try:
            usage = self._acts.usage_of_attempts(answer)
        except GridbridgeError as error:
            _log_failed_reading(reading.campaign_and_cluster, error)
            return
        for attempt in reading.attempts:
            if amounts := usage.get((attempt.task, attempt.attempt)):
                yield MeasuredTaskAttempt(
                    campaign=attempt.campaign,
                    task=attempt.task,
                    attempt=attempt.attempt,
                    cluster=reading.campaign_and_cluster[1],
                    has_failed=attempt.outcome in FAILURES,
                    max_rss_kb=amounts[0],
                    written_kb=amounts[1],
                )


def _log_failed_reading(pair: CampaignCluster, error: GridbridgeError) -> None:
    _log.warning("event=usage_unread campaign=%d at=%s why=%r", *pair, str(error))
