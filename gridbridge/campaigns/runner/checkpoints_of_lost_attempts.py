"""Reads which checkpoints lost and preempted attempts have left, before the runner records the attempts' ends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.background_readings import BackgroundReadings, Key, ProgramsForAttempts, StartReading
from gridbridge.decisions.campaigns.checkpoint_intervals import LOSSES
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, TaskAttempt
from gridbridge.model.campaigns.checkpoint_statistics import AttemptCheckpoints
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.shell.clock import Clock

# without a successful reading; afterwards an end is recorded as that of an attempt without checkpoints
LONGEST_WAIT_S = 120.0


class CheckpointsOfLostAttempts:
    """Delays the record of lost attempts' ends until a program has read the checkpoints of these attempts."""

    def __init__(
        self,
        clock: Clock,
        programs: ProgramsForAttempts,
        start: StartReading = array_commands_as_owner.start_record_reading,
    ) -> None:
        parse = array_commands_as_owner.checkpoints_of_attempts
        self._readings = BackgroundReadings[AttemptCheckpoints](
            "event=checkpoints_unread campaign=%d at=%s why=%r",
            programs,
            start,
            parse,
            clock,
            without=AttemptCheckpoints(),
            longest_wait_s=LONGEST_WAIT_S,
        )

    def select_recordable_ends(
        self, ended: Mapping[CampaignArray, Sequence[TaskAttempt]], campaigns: Iterable[Campaign]
    ) -> dict[CampaignArray, tuple[TaskAttempt, ...]]:
        """Return the attempts whose end may be recorded now; lost attempts have their checkpoints."""
        saving = (campaign for campaign in campaigns if campaign.jdl.checkpoint_files and campaign.state.is_alive)
        owners = {campaign.number: campaign.uid for campaign in saving}
        lost = {
            _key_of_attempt(attempt): array.cluster
            for array, attempts in ended.items()
            if array.campaign in owners
            for attempt in attempts
            if attempt.outcome in LOSSES and not is_prologue_or_epilogue_task(attempt.task)
        }
        checkpoints = self._readings.read_values(lost, owners.__getitem__)
        waiting = lost.keys() - checkpoints.keys()
        return {
            array: tuple(
                _with_checkpoints(attempt, checkpoints.get(_key_of_attempt(attempt)))
                for attempt in attempts
                if _key_of_attempt(attempt) not in waiting
            )
            for array, attempts in ended.items()
        }


def _with_checkpoints(attempt: TaskAttempt, checkpoints: AttemptCheckpoints | None) -> TaskAttempt:
    if checkpoints is None:
        return attempt
    return replace(
        attempt,
        has_progressed=checkpoints.completed > 0,
        checkpoint_times=checkpoints.times,
        checkpoint_bytes=checkpoints.size_bytes,
    )


def _key_of_attempt(attempt: TaskAttempt) -> Key:
    return attempt.campaign, attempt.task, attempt.attempt
