"""Find transfers whose home task and remote job disagree about suspension.

The home job list takes precedence over method reports, because the shepherd may skip a method that
follows another at once. A mismatch counts only in two successive snapshots that are younger than
the owner's last message.
"""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.states import JobState
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import DesiredLocalJobState, StarterPhase

FOLLOWING = (StarterPhase.HELD, StarterPhase.RELEASED)  # phases with a known remote job


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionMismatch:
    """A home job's state, running or suspended, that its remote job does not follow."""

    desired: str  # state of the home job: running or suspended
    at: tuple[datetime, ...]  # snapshot times: home cluster, then remote cluster
    why: str

    def is_like(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether an earlier mismatch has the same state, shown by the same clusters."""
        return self.desired == earlier.desired and len(self.at) == len(earlier.at)

    def follows(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether an earlier mismatch has the same state, shown by earlier snapshots."""
        return self.is_like(earlier) and all(map(datetime.__gt__, self.at, earlier.at))


def find_suspension_mismatch(
    transfer: Transfer, situation: TransferDecisionInputs, shows: Container[str]
) -> SuspensionMismatch | None:
    """Return a transfer's suspension mismatch in the newest snapshots; None if none.

    `shows` are the clusters whose job lists show a suspension by the service.
    """
    home = situation.snapshots.get(situation.home)
    if not _may_follow(transfer, situation) or not home or not transfer.is_older_than(home.taken_at):
        return None
    is_now = _at_home(transfer.local_state)
    if not is_now:
        return None
    intended = transfer.desired or DesiredLocalJobState.RUNNING
    if is_now != intended:
        why = f"qstat here shows it {is_now}, but its last method said {intended}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at,), why=why)
    if transfer.remote in shows and transfer.seen_at and _is_otherwise(transfer, is_now):
        why = f"it is {is_now} here and {transfer.remote_state.text} at {transfer.remote}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at, transfer.seen_at), why=why)
    return None


def _may_follow(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether a transfer's starter sleeps and has no deletion or end to handle."""
    is_free = not transfer.is_over and transfer.verdict is None and transfer.desired != DesiredLocalJobState.DEAD
    return is_free and transfer.phase in FOLLOWING and transfer.wake in situation.asleep


def _at_home(state: JobState) -> str:
    """Return a home job's state, running or suspended; '' for a job without a host."""
    if not state.is_running or _is_ending(state):
        return ""
    return DesiredLocalJobState.SUSPENDED if state.is_suspended else DesiredLocalJobState.RUNNING


def _is_otherwise(transfer: Transfer, is_now: str) -> bool:
    """Say whether a remote job runs while its home job is suspended, or the reverse.

    A remote job that is suspended without our hold was suspended by a remote administrator.
    """
    is_fresh = transfer.seen_at is not None and transfer.is_older_than(transfer.seen_at) and not transfer.missed_polls
    state = transfer.remote_state
    if not is_fresh or not state.is_listed or _is_ending(state):
        return False
    if is_now == DesiredLocalJobState.SUSPENDED:
        return state.is_running and not state.is_suspended
    return state.is_held and state.is_by_hand  # the service's own suspension sets both facts


def _is_ending(state: JobState) -> bool:
    return state.is_waiting or state.is_deleting or state.is_error
