"""Tasks that share a large input file go to a cluster together, as far as the order of tasks allows."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.tasks_sharing_inputs import (
    HIGHEST,
    MOST_GROUP_RANGES,
    choose_tasks_sharing_inputs,
    group_tasks_by_shared_input,
    groups_of_next_tasks,
    parse_group_ranges,
)

A, B, ALL, OWN = (9 << 20, "a"), (8 << 20, "b"), (99 << 20, "all"), (50 << 20, "own")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([[A], [A], [B], [B]], [(0, 1, 0), (2, 3, 1)]),
        ([[A], [B], [A], [B]], [(0, 0, 0), (1, 1, 1), (2, 2, 0), (3, 3, 1)]),
        ([[A, B], [A], [B]], [(0, 1, 0), (2, 2, 1)]),
        ([[A, ALL], [ALL, A], [ALL]], [(0, 1, 0)]),
        ([[A, OWN], [], [A]], [(0, 0, 0), (2, 2, 0)]),
        ([[A], [A]], []),
        ([[A, A], []], []),
    ],
    ids=["runs", "in turn", "the largest", "a file of all", "a file of one task", "only one file", "twice in a task"],
)
def test_a_group_shares_its_largest_file(inputs: list[list[tuple[int, str]]], expected: object) -> None:
    assert expected == [*group_tasks_by_shared_input(inputs)]


def test_a_campaign_of_very_many_runs_has_no_groups() -> None:
    assert () == group_tasks_by_shared_input([[A], [B]] * (MOST_GROUP_RANGES // 2 + 1))
    assert () == parse_group_ranges([[task, task, 0] for task in range(MOST_GROUP_RANGES + 1)])


@pytest.mark.parametrize(
    "value", [None, {}, [1], [[0, 1]], [[0, 1, "a"]], [[1, 0, 0]], [[0, 2, 0], [2, 3, 1]], [[0, 0, -1]], [[0, True, 1]]]
)
def test_groups_that_gridsub_does_not_write_are_ignored(value: object) -> None:
    assert () == parse_group_ranges(value)


def test_of_a_run_without_end_only_the_next_tasks_are_counted() -> None:
    """An owner may write a run of a billion tasks."""
    runs = parse_group_ranges([[0, 7, 0], [8, HIGHEST, 1]])

    assert {7: 0, 8: 1, 9: 1} == dict(groups_of_next_tasks(runs, range(7, 10)))


TASKS = {0: None, 1: 0, 2: 1, 3: 0, 4: 1, 5: 2, 6: None}  # group of each task


@pytest.mark.parametrize(
    ("here", "elsewhere", "unshared_first", "count", "expected"),
    [
        ((), (), 0, 2, [1, 3]),
        ((), (), 0, 3, [1, 2, 3]),
        ((), (), 1, 3, [0, 1, 3]),
        ((), (), 2, 2, [0, 6]),
        ((), (), 3, 1, [0]),
        ((), (0,), 0, 3, [2, 4, 5]),
        ((1,), (), 1, 3, [0, 2, 4]),
        ((0,), (1,), 0, 4, [0, 1, 3, 5]),
        ((0,), (0, 1, 2), 0, 4, [0, 1, 3, 6]),
        ((0,), (0, 1, 2), 0, 5, [0, 1, 2, 3, 6]),
        ((), (0, 1, 2), 0, 7, [0, 1, 2, 3, 4, 5, 6]),
    ],
    ids=[
        *(
            "the first group",
            "then the next group",
            "one task without a group",
            "two of them",
            "no more than the count",
        ),
        *("a group of another cluster is last", "a group that is here is first", "then groups that are nowhere"),
        *("then all tasks without a group", "then groups of others", "all"),
    ],
)
def test_groups_go_where_their_file_is(
    here: tuple[int, ...], elsewhere: tuple[int, ...], unshared_first: int, count: int, expected: list[int]
) -> None:
    chosen = choose_tasks_sharing_inputs(TASKS.items(), frozenset(here), frozenset(elsewhere), count, unshared_first)

    assert expected == [*chosen]
    assert chosen.items() <= TASKS.items()


@given(st.integers(2, 10), st.integers(1, 4), st.integers(1, 60))
def test_a_file_travels_to_few_clusters(files: int, clusters: int, at_once: int) -> None:
    """Tasks use the files in turn. In their order they would take each file to each cluster."""
    waiting = {task: task % files for task in range(200)}
    at: dict[int, set[int]] = {cluster: set() for cluster in range(clusters)}
    sent = Counter[int]()
    while waiting:
        for cluster, here in at.items():
            elsewhere = set().union(*(there for other, there in at.items() if other != cluster))
            for task in choose_tasks_sharing_inputs(waiting.items(), here, elsewhere, at_once):
                here.add(waiting.pop(task))
                sent[task] += 1

    assert Counter(range(200)) == sent
    assert sum(map(len, at.values())) <= files + 2 * clusters
