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


@pytest.mark.parametrize(
    ("offers", "order", "expected"),
    [
        ((busy(BETA, 7), DELTA, GAMMA), QueueOrder.WAIT, {"beta": 300, "delta": 100, "gamma": 200}),
        ((BETA, busy(DELTA, 9), busy(GAMMA, 99)), QueueOrder.WAIT, {}),
        (
            tuple(replace(queue, seq_no=100) for queue in EVERY),
            QueueOrder.COST,
            {"gamma": 101, "beta": 102},
        ),
        ((BETA, DELTA, replace(GAMMA, seq_no=None, cost=0)), QueueOrder.COST, {"delta": 100, "beta": 200}),
        (EVERY, QueueOrder.SEQ_NO, {}),
    ],
    ids=["exchanged", "in order already", "equal numbers", "numbers of hosts are kept", "no order"],
)
def test_queues_out_of_order_get_other_sequence_numbers(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, expected: dict[str, int]
) -> None:
    changes = transfer_queue_order.plan_queue_seq_no_changes(offers, order)

    assert {change.queue.removeprefix("transfer-"): change.after for change in changes} == expected


def test_order_seq_no_restores_former_numbers() -> None:
    former = {"transfer-beta": 300, "transfer-delta": 200}

    (change,) = transfer_queue_order.plan_queue_seq_no_restore(EVERY, former)
    assert (change.queue, change.before, change.after) == ("transfer-beta", 100, 300)


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
