"""Reads which checkpoints lost and preempted attempts have left, before the runner records the attempts' ends."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import Pair
from gridbridge.campaigns.runner.background_input_carries import may_start_owner_program, pop_ended_programs
from gridbridge.decisions.campaigns.checkpoint_intervals import LOSSES
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignCluster, TaskAttempt
from gridbridge.model.campaigns.checkpoint_statistics import AttemptCheckpoints
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram

# without a successful reading; afterwards an end is recorded as that of an attempt without checkpoints
LONGEST_WAIT_S = 120.0
PAUSE_S = 30.0  # after a failed reading, because a person's programs may fail in each cycle
MOST_AT_ONCE = 1000  # attempts in one call
Key = tuple[int, int, int]  # campaign, task, attempt
_log = logging.getLogger(__name__)


class CheckpointCommands(Protocol):
    """The commands of module `array_commands_as_owner` that read checkpoints."""

    def start_record_reading(
        self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram:
        """Start to read the checkpoints of (task, attempt) pairs at a cluster."""

    def checkpoints_of_attempts(self, answer: CompletedProgram, /) -> dict[tuple[int, int], AttemptCheckpoints]:
        """Return the checkpoints by (task, attempt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCheckpointReading:
    program: BackgroundProgram
    campaign_and_cluster: CampaignCluster
    keys: tuple[Key, ...]
    began_s: float  # steady time at which the program was started


class CheckpointsOfLostAttempts:
    """Delays the record of lost attempts' ends until a program has read the checkpoints of these attempts.

    At most one program runs for each owner and cluster. No state is stored: after a kill the runner finds the same ends
    and reads the checkpoints again.
    """

    def __init__(
        self,
        clock: Clock,
        running: dict[Pair, RunningCheckpointReading],
        acts: CheckpointCommands = array_commands_as_owner,
    ) -> None:
        self._clock = clock
        self._running = running
        self._acts = acts
        self._checkpoints: dict[Key, AttemptCheckpoints] = {}
        self._since_s: dict[Key, float] = {}  # when the end of an attempt was first delayed
        self._failing_since_s: dict[CampaignCluster, float] = {}  # begin of the first reading since the last success
        self._last_begun_s: dict[CampaignCluster, float] = {}  # steady time at which the last program began
        self._paused_until_s: dict[Pair, float] = {}

    def take_ended_checkpoint_readings(self) -> bool:
        """Store the answers of ended programs; say whether there are any, so that a cycle may start early."""
        ended = pop_ended_programs(self._running)
        for owner, reading, answer in ended:
            self._take_answer(owner, reading, answer)
        return bool(ended)

    def select_recordable_ends(
        self, ended: Mapping[CampaignArray, Sequence[TaskAttempt]], campaigns: Iterable[Campaign]
    ) -> dict[CampaignArray, tuple[TaskAttempt, ...]]:
        """Return the attempts whose end may be recorded now; lost attempts have their checkpoints."""
        self.take_ended_checkpoint_readings()
        self._forget_other_attempts({_key_of_attempt(attempt) for attempts in ended.values() for attempt in attempts})
        saving = (campaign for campaign in campaigns if campaign.jdl.checkpoint_files and campaign.state.is_alive)
        owners = {campaign.number: campaign.uid for campaign in saving}
        unread = defaultdict[CampaignCluster, list[Key]](list)
        ready: dict[CampaignArray, tuple[TaskAttempt, ...]] = {}
        for array, attempts in ended.items():
            for attempt in attempts if array.campaign in owners else ():
                is_lost = attempt.outcome in LOSSES and not is_prologue_or_epilogue_task(attempt.task)
                owner = owners[array.campaign], array.cluster
                if is_lost and not self._may_record_end(owner, _key_of_attempt(attempt)):
                    unread[array.campaign, array.cluster].append(_key_of_attempt(attempt))
            waiting = set(unread.get((array.campaign, array.cluster), ()))
            ready[array] = tuple(
                self._with_checkpoints(attempt) for attempt in attempts if _key_of_attempt(attempt) not in waiting
            )
        for pair in sorted(unread, key=lambda pair: self._last_begun_s.get(pair, -inf)):
            self._start_reading(owners[pair[0]], pair, tuple(unread[pair][:MOST_AT_ONCE]))
        return ready

    def _forget_other_attempts(self, keys: Set[Key]) -> None:
        """Forget attempts without an end, or whose end was recorded in another way (abandoned campaigns)."""
        self._checkpoints = {key: made for key, made in self._checkpoints.items() if key in keys}
        self._since_s = {key: since_s for key, since_s in self._since_s.items() if key in keys}

    def _may_record_end(self, owner: Pair, key: Key) -> bool:
        """Say whether checkpoints were read or can't be read; an attempt that only waits for its turn is not late."""
        now_s, running = self._clock.steady_s(), self._running.get(owner)
        needed_s = self._since_s.setdefault(key, now_s)
        failing_s = self._failing_since_s.get((key[0], owner[1]), now_s)
        hung_s = running.began_s if running else now_s  # the program may read for another campaign of the owner
        is_late = now_s - max(needed_s, min(failing_s, hung_s)) >= LONGEST_WAIT_S
        return is_late or key in self._checkpoints

    def _with_checkpoints(self, attempt: TaskAttempt) -> TaskAttempt:
        key = _key_of_attempt(attempt)
        self._since_s.pop(key, None)
        checkpoints = self._checkpoints.pop(key, None)
        if checkpoints is None or attempt.outcome not in LOSSES:
            return attempt
        return replace(attempt, has_progressed=checkpoints.completed > 0, checkpoint_times=checkpoints.times)

    def _start_reading(self, uid: int, pair: CampaignCluster, keys: tuple[Key, ...]) -> None:
        owner = uid, pair[1]
        is_paused = self._clock.steady_s() < self._paused_until_s.get(owner, 0.0)
        if is_paused or not may_start_owner_program(owner, self._running):
            return
        began_s = self._clock.steady_s()
        self._failing_since_s.setdefault(pair, began_s)
        self._last_begun_s[pair] = began_s
        try:
            program = self._acts.start_record_reading(*pair, [key[1:] for key in keys])
        except GridbridgeError as error:
            self._pause_readings(owner, pair[0], error)
            return
        self._running[owner] = RunningCheckpointReading(
            program=program, campaign_and_cluster=pair, keys=keys, began_s=began_s
        )

    def _take_answer(self, owner: Pair, reading: RunningCheckpointReading, answer: CompletedProgram) -> None:
        try:
            checkpoints = self._acts.checkpoints_of_attempts(answer)
        except GridbridgeError as error:
            self._pause_readings(owner, reading.campaign_and_cluster[0], error)
            return
        self._failing_since_s.pop(reading.campaign_and_cluster, None)
        for key in reading.keys:
            self._checkpoints[key] = checkpoints.get(key[1:], AttemptCheckpoints())

    def _pause_readings(self, owner: Pair, campaign: int, error: GridbridgeError) -> None:
        self._paused_until_s[owner] = self._clock.steady_s() + PAUSE_S
        _log.warning("event=checkpoints_unread campaign=%d at=%s why=%r", campaign, owner[1], str(error))


def _key_of_attempt(attempt: TaskAttempt) -> Key:
    return attempt.campaign, attempt.task, attempt.attempt
