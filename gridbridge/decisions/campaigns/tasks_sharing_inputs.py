"""Decides which of a campaign's next tasks go to a cluster together, because they share a large input file.

Tasks whose largest shared file is the same are a group, so that this file is carried to few clusters. A file that all
tasks share makes no group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, islice

LEAST_SHARED_BYTES = 1 << 20  # a smaller file is carried in less time than a call of the carrying program takes
MOST_GROUP_RANGES = 10_000  # a campaign with more ranges has no groups
MOST_OVERTAKING = 1000  # at most this many later tasks overtake a task
HIGHEST = 999_999_999
GroupTaskRange = tuple[int, int, int]  # first task, last task, group
Group = int | str | None  # number of a group, or the cluster with the outputs of the task's predecessor


def group_tasks_by_shared_input(inputs: Sequence[Iterable[tuple[int, str]]]) -> tuple[GroupTaskRange, ...]:
    """Return the ranges of tasks of each group; none if there are more than MOST_GROUP_RANGES.

    `inputs` has the large files, as (bytes, checksum), of each task.
    """
    tasks_by_file = Counter(file for files in inputs for file in {*files})
    groups: dict[tuple[int, str], int] = {}
    ranges: list[GroupTaskRange] = []
    for task, files in enumerate(inputs):
        shared = max((file for file in files if 1 < tasks_by_file[file] < len(inputs)), default=None)
        if shared is None:
            continue
        group = groups.setdefault(shared, len(groups))
        if ranges and ranges[-1][1:] == (task - 1, group):
            ranges[-1] = (ranges[-1][0], task, group)
        else:
            ranges.append((task, task, group))
    return tuple(ranges) if len(ranges) <= MOST_GROUP_RANGES else ()


def parse_group_ranges(value: object) -> tuple[GroupTaskRange, ...]:
    """Return the ranges in a campaign file; none for an invalid value, because the owner can write the file."""
    rows = value if isinstance(value, list) and len(value) <= MOST_GROUP_RANGES else []
    ranges: list[GroupTaskRange] = []
    for row in rows:
        if not isinstance(row, list) or [type(number) for number in row] != [int, int, int]:
            return ()
        first, last, group = row
        if not (ranges[-1][1] if ranges else -1) < first <= last <= HIGHEST or not 0 <= group <= HIGHEST:
            return ()
        ranges.append((first, last, group))
    return tuple(ranges)


def groups_of_next_tasks(ranges: Iterable[GroupTaskRange], tasks: Iterable[int]) -> Iterator[tuple[int, int | None]]:
    """Yield each task with its group, None without a group; ranges and tasks are in ascending order."""
    later = iter(ranges)
    part = next(later, None)
    for task in tasks:
        while part and part[1] < task:
            part = next(later, None)
        yield task, part[2] if part and part[0] <= task else None


def choose_tasks_sharing_inputs(
    tasks: Iterable[tuple[int, Group]],
    at_cluster: Set[int | str],
    at_other_clusters: Set[int | str],
    count: int,
    unshared_first: int = 0,
) -> dict[int, Group]:
    """Choose `count` of the next tasks for a cluster; `tasks` has each task and its group, in ascending order.

    First come `unshared_first` tasks without a group, then tasks of groups whose file was sent to this cluster, and
    groups whose file was sent to no cluster, group by group. Then come further tasks without a group, and last the
    groups whose file was sent only to other clusters.
    """
    here: list[tuple[int, Group]] = []
    by_group: dict[Group, list[tuple[int, Group]]] = {None: []}
    unshared = by_group[None]
    for task, group in tasks:
        (here if group in at_cluster else by_group.setdefault(group, [])).append((task, group))
        if len(unshared) >= unshared_first and len(here) >= count - unshared_first:
            break
    del by_group[None]
    elsewhere = [of_group for group, of_group in by_group.items() if group in at_other_clusters]
    nowhere = [of_group for group, of_group in by_group.items() if group not in at_other_clusters]
    order = chain(unshared[:unshared_first], here, *nowhere, unshared[unshared_first:], *elsewhere)
    return dict(sorted(islice(order, count)))
