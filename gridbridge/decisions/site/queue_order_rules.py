"""In which order home's scheduler tries the transfer queues that would take a job.

With `queue_sort_method seqno` the scheduler asks queues by their `seq_no` (sched_conf(5),
queue_conf(5)). So transfer queues exchange their numbers among each other: those of home's own
queues, and where all of them stand among these, stay as they are. A load value can't do it: all
transfer queues live on one host, and a threshold would close a queue for jobs that no other takes.
"""

from collections.abc import Iterable, Mapping
from math import inf

from gridbridge.model.site.setup_findings import CheckFinding, FindingState
from gridbridge.model.site.site_section import QueueOffer, QueueOrder, RenumberedQueue
from gridbridge.model.status_report import with_noun

WORDS = {
    QueueOrder.SEQ_NO: "by their seq_no",
    QueueOrder.WAIT: "the least expected wait first",
    QueueOrder.COST: "the least cost first",
}


def slot_turns_until_start(offer: QueueOffer) -> float:
    """Return how many turns of all its slots a cluster needs until one more task starts.

    To a tenth: what differs by less changes with each job, and counts as equal. A cluster that has
    not answered lately is expected to take for ever.
    """
    if not offer.is_heard:
        return inf
    ahead = max(0, offer.pending + 1 - offer.free_slots)
    return round(ahead / offer.slots, 1) if offer.slots else inf


def rank_transfer_queues(offers: Iterable[QueueOffer], order: QueueOrder) -> tuple[QueueOffer, ...]:
    """Return queues in the order in which a job should be offered to them.

    Of equal ones the present order is kept; among equal costs the least expected wait decides.
    """
    present = sorted(
        offers, key=lambda offer: (inf if offer.seq_no is None else offer.seq_no, offer.queue)
    )
    if order is QueueOrder.SEQ_NO:
        return tuple(present)
    if order is QueueOrder.WAIT:
        return tuple(sorted(present, key=slot_turns_until_start))
    return tuple(sorted(present, key=lambda offer: (offer.cost, slot_turns_until_start(offer))))


def renumber_queues(offers: Iterable[QueueOffer], order: QueueOrder) -> tuple[RenumberedQueue, ...]:
    """Return the queues whose numbers change, so that the scheduler tries them in this order.

    The numbers are those that the queues have; equal ones are told apart by the next higher ones.
    """
    if order is QueueOrder.SEQ_NO:
        return ()
    numbered = [
        (offer, offer.seq_no)
        for offer in rank_transfer_queues(offers, order)
        if offer.seq_no is not None
    ]
    changed: list[RenumberedQueue] = []
    least = -1
    numbers = sorted(number for _, number in numbered)
    for (offer, before), number in zip(numbered, numbers, strict=True):
        least = max(number, least + 1)
        if before != least:
            changed.append(
                RenumberedQueue(
                    queue=offer.queue,
                    before=before,
                    after=least,
                    why=queue_rank_reason(offer, order),
                )
            )
    return tuple(changed)


def restore_queue_numbers(
    offers: Iterable[QueueOffer], former: Mapping[str, int]
) -> tuple[RenumberedQueue, ...]:
    """Return the queues that get the numbers back that they had before any other was given."""
    return tuple(
        RenumberedQueue(
            queue=offer.queue, before=offer.seq_no, after=former[offer.queue], why="as it was"
        )
        for offer in offers
        if offer.seq_no is not None and former.get(offer.queue, offer.seq_no) != offer.seq_no
    )


def is_queue_order_set_up(
    offers: Iterable[QueueOffer], order: QueueOrder, former: Mapping[str, int]
) -> bool:
    """Say whether the queues' numbers follow the order; `former` are their first numbers.

    Expected waits change from minute to minute, so any numbers count as right once queues were
    numbered by waits. Costs change with the file alone.
    """
    all_offers = tuple(offers)
    if order is QueueOrder.SEQ_NO:
        return not restore_queue_numbers(all_offers, former)
    if not former:
        return not renumber_queues(all_offers, order)
    costs = [queue.cost for queue in rank_transfer_queues(all_offers, QueueOrder.SEQ_NO)]
    return order is QueueOrder.WAIT or costs == sorted(costs)


def queue_order_finding(
    offers: Iterable[QueueOffer], order: QueueOrder, former: Mapping[str, int]
) -> CheckFinding:
    """Judge whether the order in the file was set up."""
    is_right = is_queue_order_set_up(offers, order, former)
    differ = "" if is_right else "; the seq_no of the queues say otherwise"
    return CheckFinding(
        item="order of transfer queues",
        state=FindingState.OK if is_right else FindingState.WARNING,
        found=f'queue_order = "{order}"{differ}',
        right="" if is_right else WORDS[order],
        hint="" if is_right else "run gridbridge setup order --apply",
    )


def queue_rank_reason(offer: QueueOffer, order: QueueOrder) -> str:
    """Say by what a queue has its place."""
    heard = f"{offer.pending} waiting, {offer.free_slots} of {with_noun(offer.slots, 'slot')} free"
    standing = heard if offer.is_heard else f"{offer.cluster} has not answered lately"
    return f"cost {offer.cost:g}, {standing}" if order is QueueOrder.COST else standing


def describe_queue_order(offers: Iterable[QueueOffer], order: QueueOrder) -> str:
    """Say in which order queues should be tried, and in which they are if that differs."""
    all_offers = tuple(offers)
    order_words = ", then ".join(
        f"{offer.queue} ({queue_rank_reason(offer, order)})"
        for offer in rank_transfer_queues(all_offers, order)
    )
    is_so = not renumber_queues(all_offers, order)
    later = "" if is_so else "; their seq_no say otherwise until `gridbridge setup order --apply`"
    return f"tried in this order, {WORDS[order]}: {order_words}{later}"
