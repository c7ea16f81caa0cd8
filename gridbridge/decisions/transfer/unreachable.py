"""Which tasks come home from a cluster that does not answer: those whose claim can be had here.

Nothing is known of such a cluster's jobs but what it told last; the claim decides whether one has
started since. How many slots it takes is what the task holds at home.
"""

from datetime import timedelta

from gridbridge.decisions.transfer.health import age
from gridbridge.decisions.transfer.plan import World
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Desired, Phase
from gridbridge.model.transfer.claim import JOB, is_grant
from gridbridge.model.transfer.sections import TransferQueue
from gridbridge.model.transfer.transfer import Transfer


def may_be_had(one: Transfer) -> bool:
    """Say whether its task may come home by its claim: no job is known to have it."""
    is_waiting = one.there.is_pending or not one.remote_state
    return bool(one.claim) and one.claimed != JOB and is_waiting


def slots(one: Transfer, world: World) -> int:
    """Return the slots that its task takes at home, 0 when home does not tell."""
    local = world.snapshots.get(world.home)
    name = parse_transfer(one.name)
    row = local.find(name.job, name.task) if local else None
    return row.slots if row and row.owner == one.owner else 0


def why(one: Transfer, world: World, queue: TransferQueue | None) -> str:
    """Say why a task comes home from a silent cluster; empty when it does not."""
    if queue is None or not queue.recall_wait_s or not may_be_had(one):
        return ""
    silent, limit = silence(one, world), timedelta(seconds=queue.recall_unreachable_s)
    if silent < limit or not sleeps(one, world, (Phase.HELD, Phase.RELEASED)):
        return ""
    return f"{one.remote} has not answered for {age(silent)}, {age(limit)} is the limit"


def sleeps(one: Transfer, world: World, phases: tuple[str, ...]) -> bool:
    """Say whether its starter sleeps, as far as this, and nothing is wanted but that it runs."""
    is_wanted = one.desired in ("", Desired.RUNNING) and not (one.verdict or one.is_over)
    is_there = one.phase in phases and one.missed_polls == 0
    return is_wanted and is_there and one.wake in world.asleep


def silence(one: Transfer, world: World) -> timedelta:
    """Return how long a transfer's cluster has been asked in vain."""
    remote = world.snapshots.get(one.remote)
    heard = (one.seen_at, one.created_at, remote.taken_at if remote else None)
    return world.now - max(world.since, *(moment for moment in heard if moment))


def waits_for_grant(one: Transfer, world: World) -> bool:
    """Say whether its job has started, so that nothing but a grant keeps it from running."""
    if not is_grant(one.claim) or one.claimed or one.verdict or one.is_over:
        return False
    row = world.row(one)
    if row is None or row.owner != one.owner:
        return False
    return row.state.is_running and one.desired != Desired.DEAD
