"""The order of transfer queues, and the sequence numbers that produce the order."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site import transfer_queue_order
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_section import QueueOrder, TransferQueueWithClusterLoad

BETA = TransferQueueWithClusterLoad(queue="transfer-beta", cluster="beta", seq_no=100, free_slots=4, slots=4, cost=2)
DELTA = TransferQueueWithClusterLoad(queue="transfer-delta", cluster="delta", seq_no=200, free_slots=2, slots=2, cost=1)
GAMMA = TransferQueueWithClusterLoad(queue="transfer-gamma", cluster="gamma", seq_no=300, free_slots=4, slots=4, cost=1)
EVERY = (BETA, DELTA, GAMMA)


def busy(offer: TransferQueueWithClusterLoad, pending: int) -> TransferQueueWithClusterLoad:
    return replace(offer, free_slots=0, pending=pending)


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        pytest.param(BETA, 0, id="a free slot"),
        pytest.param(replace(BETA, pending=3), 0, id="more free slots than tasks"),
        pytest.param(busy(BETA, 0), 0.2, id="full: the next of four slots"),
        pytest.param(busy(BETA, 7), 2, id="eight tasks for four slots"),
        pytest.param(busy(DELTA, 7), 4, id="eight tasks for two slots"),
        pytest.param(replace(BETA, slots=0, free_slots=0), float("inf"), id="no slots"),
        pytest.param(replace(BETA, is_heard=False), float("inf"), id="silent"),
    ],
)
def test_the_expected_wait_is_counted_in_turnovers_of_all_slots(
    offer: TransferQueueWithClusterLoad, expected: float
) -> None:
    assert transfer_queue_order.expected_wait_in_slot_turnovers(offer) == expected


@pytest.mark.parametrize(
    ("offers", "order", "expected"),
    [
        pytest.param(EVERY, QueueOrder.SEQ_NO, "beta delta gamma", id="as it is"),
        pytest.param(EVERY, QueueOrder.WAIT, "beta delta gamma", id="equal waits: as it is"),
        pytest.param((busy(BETA, 7), DELTA, GAMMA), QueueOrder.WAIT, "delta gamma beta", id="beta is full"),
        pytest.param(
            (busy(BETA, 7), busy(DELTA, 1), busy(GAMMA, 7)), QueueOrder.WAIT, "delta beta gamma", id="all are full"
        ),
        pytest.param(
            (replace(BETA, is_heard=False), DELTA, busy(GAMMA, 99)),
            QueueOrder.WAIT,
            "delta gamma beta",
            id="who is silent comes last",
        ),
        pytest.param(EVERY, QueueOrder.COST, "delta gamma beta", id="equal costs: as it is"),
        pytest.param(
            (BETA, busy(DELTA, 9), GAMMA), QueueOrder.COST, "gamma delta beta", id="equal costs: the least wait"
        ),
    ],
)
def test_transfer_queues_are_ranked_by_the_configured_order(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, expected: str
) -> None:
    for given in (offers, offers[::-1]):
        found = transfer_queue_order.rank_transfer_queues(given, order)

        assert " ".join(one.cluster for one in found) == expected


def numbers(offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder) -> dict[str, int]:
    changed = {one.queue: one.after for one in transfer_queue_order.plan_queue_seq_no_changes(offers, order)}
    return {one.cluster: changed.get(one.queue, one.seq_no or 0) for one in offers}


def test_queues_exchange_their_sequence_numbers() -> None:
    found = numbers((busy(BETA, 7), DELTA, GAMMA), QueueOrder.WAIT)

    assert found == {"beta": 300, "delta": 100, "gamma": 200}


def test_correctly_ordered_queues_keep_their_sequence_numbers() -> None:
    assert (
        transfer_queue_order.plan_queue_seq_no_changes((BETA, busy(DELTA, 9), busy(GAMMA, 99)), QueueOrder.WAIT) == ()
    )


def test_equal_sequence_numbers_become_different() -> None:
    same = tuple(replace(one, seq_no=100) for one in EVERY)

    assert numbers(same, QueueOrder.COST) == {"delta": 100, "gamma": 101, "beta": 102}


def test_a_queue_with_host_specific_numbers_is_not_renumbered() -> None:
    odd = replace(GAMMA, seq_no=None, cost=0)

    changed = transfer_queue_order.plan_queue_seq_no_changes((BETA, DELTA, odd), QueueOrder.COST)

    assert {one.queue: one.after for one in changed} == {"transfer-delta": 100, "transfer-beta": 200}


def test_order_seq_no_only_restores_former_numbers() -> None:
    former = {"transfer-beta": 300, "transfer-delta": 200}

    assert transfer_queue_order.plan_queue_seq_no_changes(EVERY, QueueOrder.SEQ_NO) == ()
    found = transfer_queue_order.plan_queue_seq_no_restore(EVERY, former)
    assert [(one.queue, one.before, one.after) for one in found] == [("transfer-beta", 100, 300)]


def test_the_queue_order_is_described_with_its_numbers() -> None:
    told = transfer_queue_order.describe_queue_order((busy(BETA, 7), DELTA), QueueOrder.WAIT)
    cheap = transfer_queue_order.describe_queue_order((replace(BETA, cost=0.5), DELTA), QueueOrder.COST)

    assert told == (
        "tried in this order, the shortest expected wait first: transfer-delta (0 waiting, 2 of 2"
        " slots free), then transfer-beta (7 waiting, 0 of 4 slots free); the queues' seq_no"
        " follow another order until `gridbridge setup order --apply`"
    )
    assert cheap == (
        "tried in this order, the least cost first: transfer-beta (cost 0.5, 0 waiting, 4 of 4"
        " slots free), then transfer-delta (cost 1, 0 waiting, 2 of 2 slots free)"
    )


AT_FIRST = {"transfer-beta": 200, "transfer-delta": 100}


@pytest.mark.parametrize(
    ("offers", "order", "former", "is_set_up"),
    [
        pytest.param(EVERY, QueueOrder.SEQ_NO, {}, True, id="nothing was ever changed"),
        pytest.param(EVERY, QueueOrder.SEQ_NO, AT_FIRST, False, id="not taken back"),
        pytest.param(EVERY, QueueOrder.COST, {}, False, id="costs that were never set up"),
        pytest.param(EVERY, QueueOrder.COST, AT_FIRST, False, id="costs changed in the file"),
        pytest.param((busy(BETA, 7), DELTA), QueueOrder.WAIT, {}, False, id="waits, never set up"),
        pytest.param((busy(BETA, 7), DELTA), QueueOrder.WAIT, AT_FIRST, True, id="waits change"),
        pytest.param(
            (replace(DELTA, seq_no=1), replace(GAMMA, seq_no=2, pending=9), replace(BETA, seq_no=3)),
            QueueOrder.COST,
            AT_FIRST,
            True,
            id="of equal costs waits change",
        ),
    ],
)
def test_a_queue_order_that_was_never_set_up_is_a_warning(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, former: dict[str, int], is_set_up: bool
) -> None:
    """Expected waits change every minute; configured costs do not."""
    found = transfer_queue_order.queue_order_finding(offers, order, former)

    assert found.state is (FindingSeverity.OK if is_set_up else FindingSeverity.WARNING)
    assert found.hint == ("" if is_set_up else "run gridbridge setup order --apply")
