"""Plans the order in which the home cluster's scheduler tries transfer queues for a job.

The order is by seq_no and needs `queue_sort_method seqno` (sched_conf(5), queue_conf(5)). Load values can't
order queues on one host. Transfer queues exchange their seq_no; local queues keep theirs.
"""

from collections.abc import Iterable, Mapping
from math import inf

from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.site.site_section import QueueOrder, RenumberedTransferQueue, TransferQueueWithClusterLoad

WORDS = {
    QueueOrder.SEQ_NO: "by their seq_no",
    QueueOrder.WAIT: "the shortest expected wait first",
    QueueOrder.COST: "the least cost first",
}


def expected_wait_in_slot_turnovers(offer: TransferQueueWithClusterLoad) -> float:
    """Return a task's expected wait at a cluster; 1.0 is the time in which every slot gets a new task.

    The wait is infinite if the cluster has not answered recently. It is rounded to tenths, because smaller differences
    change with each job.
    """
    if not offer.is_heard:
        return inf
    ahead = max(0, offer.pending + 1 - offer.free_slots)
    return round(ahead / offer.slots, 1) if offer.slots else inf


def rank_transfer_queues(
    offers: Iterable[TransferQueueWithClusterLoad], order: QueueOrder
) -> tuple[TransferQueueWithClusterLoad, ...]:
    """Sort queues by `order`, then by expected wait; equal queues keep their present order."""
    present = sorted(offers, key=lambda offer: (inf if offer.seq_no is None else offer.seq_no, offer.queue))
    if order is QueueOrder.SEQ_NO:
        return tuple(present)
    if order is QueueOrder.WAIT:
        return tuple(sorted(present, key=expected_wait_in_slot_turnovers))
    return tuple(sorted(present, key=lambda offer: (offer.cost, expected_wait_in_slot_turnovers(offer))))


def plan_queue_seq_no_changes(
    offers: Iterable[TransferQueueWithClusterLoad], order: QueueOrder
) -> tuple[RenumberedTransferQueue, ...]:
    """Return the queues whose seq_no must change to follow `order`; equal seq_no become distinct."""
    if order is QueueOrder.SEQ_NO:
        return ()
    numbered = [(offer, offer.seq_no) for offer in rank_transfer_queues(offers, order) if offer.seq_no is not None]
    changed: list[RenumberedTransferQueue] = []
    least = -1
    numbers = sorted(number for _, number in numbered)
    for (offer, before), number in zip(numbered, numbers, strict=True):
        least = max(number, least + 1)
        if before != least:
            why = queue_rank_reason(offer, order)
            changed.append(RenumberedTransferQueue(queue=offer.queue, before=before, after=least, why=why))
    return tuple(changed)


def plan_queue_seq_no_restore(
    offers: Iterable[TransferQueueWithClusterLoad], former: Mapping[str, int]
) -> tuple[RenumberedTransferQueue, ...]:
    changed = (offer for offer in offers if former.get(offer.queue, offer.seq_no) != offer.seq_no)
    return tuple(
        RenumberedTransferQueue(queue=offer.queue, before=before, after=former[offer.queue], why="original number")
        for offer in changed
        if (before := offer.seq_no) is not None
    )


def is_queue_order_set_up(
    offers: Iterable[TransferQueueWithClusterLoad], order: QueueOrder, former: Mapping[str, int]
) -> bool:
    """Say whether the queues' seq_no follow the order; `former` has the original seq_no.

    Any order by waits that setup made is accepted, because expected waits change every minute.
    """
    all_offers = tuple(offers)
    if order is QueueOrder.SEQ_NO:
        return not plan_queue_seq_no_restore(all_offers, former)
    if not former:
        return not plan_queue_seq_no_changes(all_offers, order)
    costs = [queue.cost for queue in rank_transfer_queues(all_offers, QueueOrder.SEQ_NO)]
    return order is QueueOrder.WAIT or costs == sorted(costs)


def queue_order_finding(
    offers: Iterable[TransferQueueWithClusterLoad], order: QueueOrder, former: Mapping[str, int]
) -> CheckFinding:
    is_right = is_queue_order_set_up(offers, order, former)
    differ = "" if is_right else "; the queues' seq_no follow another order"
    return CheckFinding(
        item="order of transfer queues",
        state=FindingSeverity.OK if is_right else FindingSeverity.WARNING,
        found=f'queue_order = "{order}"{differ}',
        right="" if is_right else WORDS[order],
        hint="" if is_right else "run gridbridge setup order --apply",
    )


def queue_rank_reason(offer: TransferQueueWithClusterLoad, order: QueueOrder) -> str:
    heard = f"{offer.pending} waiting, {offer.free_slots} of {number_with_noun(offer.slots, 'slot')} free"
    standing = heard if offer.is_heard else f"{offer.cluster} has not answered lately"
    return f"cost {offer.cost:g}, {standing}" if order is QueueOrder.COST else standing


def describe_queue_order(offers: Iterable[TransferQueueWithClusterLoad], order: QueueOrder) -> str:
    all_offers = tuple(offers)
    ranked = (f"{offer.queue} ({queue_rank_reason(offer, order)})" for offer in rank_transfer_queues(all_offers, order))
    order_words = ", then ".join(ranked)
    is_so = not plan_queue_seq_no_changes(all_offers, order)
    later = "" if is_so else "; the queues' seq_no follow another order until `gridbridge setup order --apply`"
    return f"tried in this order, {WORDS[order]}: {order_words}{later}"
