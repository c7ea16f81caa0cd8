"""How far a task that is moved from a remote cluster has come, and whether it still can be."""

from datetime import timedelta

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.situation import TransferSituation, row_at_home
from gridbridge.model.message import DesiredJobState
from gridbridge.model.transfer.transfer_row import Transfer

LATEST = timedelta(seconds=120)  # what was not begun by then is looked at anew
KEPT_OFF = timedelta(seconds=600)  # a task that starts nowhere by then may go back


def why_not(one: Transfer, situation: TransferSituation) -> str:
    """Say why a task is not moved any more, whatever comes; empty where it may be."""
    if one.is_over or one.verdict:
        return "it has ended there"
    if one.desired not in ("", DesiredJobState.RUNNING):
        return f"it is to be {one.desired}"
    row = situation.row(one)
    if row is not None and row.state.has_begun:
        return "it has started there"
    return ""


def is_ready(one: Transfer, situation: TransferSituation) -> bool:
    """Say whether its starter can bring it home now."""
    return recall_policy.still_waits(one, situation)


def is_listed(one: Transfer, situation: TransferSituation) -> bool:
    """Say whether home lists its task."""
    return situation.at_home(one) is not None


def ended_at_home(one: Transfer, situation: TransferSituation) -> str:
    """Say what became of a task that came home and was not sent on; empty while it waits."""
    local = situation.snapshots.get(situation.home)
    if local is None or one.closed_at is None or local.taken_at <= one.closed_at:
        return ""
    row = row_at_home(one, local)
    if row is None:
        return "it has ended here"
    if row.state.is_running and row.queue.partition("@")[0] not in situation.queues:
        return "it runs here"
    if situation.now - one.closed_at > KEPT_OFF:
        return f"nothing took it within {KEPT_OFF.total_seconds():g} s: it may go back"
    return ""
