"""Decides which of a campaign's next tasks go to a cluster together, because they share a large input file.

A group is the tasks whose largest shared file is the same; a file of all tasks makes no group. So a file of some tasks
travels to few clusters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

LEAST_SHARED_BYTES = 1 << 20  # a smaller file travels in less time than a call needs
MOST_RUNS = 10_000  # a campaign with more runs of tasks of a group has no groups
MOST_OVERTAKING = 1000  # a task goes at the latest after this many tasks that follow in the owner's order
HIGHEST = 999_999_999
GroupRun = tuple[int, int, int]  # first task, last task, group


def group_tasks_by_shared_input(inputs: Sequence[Iterable[tuple[int, str]]]) -> tuple[GroupRun, ...]:
    """Return the groups of tasks, whose large files are given as (bytes, checksum); none above MOST_RUNS runs."""
    tasks_by_file = Counter(file for files in inputs for file in {*files})
    groups: dict[tuple[int, str], int] = {}
    runs: list[GroupRun] = []
    for task, files in enumerate(inputs):
        shared = max((file for file in files if 1 < tasks_by_file[file] < len(inputs)), default=None)
        if shared is None:
            continue
        group = groups.setdefault(shared, len(groups))
        if runs and runs[-1][1:] == (task - 1, group):
            runs[-1] = (runs[-1][0], task, group)
        else:
            runs.append((task, task, group))
    return tuple(runs) if len(runs) <= MOST_RUNS else ()


def parse_group_runs(value: object) -> tuple[GroupRun, ...]:
    """Return the runs in a campaign file; none for a value that gridsub does not write, as the owner may write it."""
    rows = value if isinstance(value, list) and len(value) <= MOST_RUNS else []
    runs: list[GroupRun] = []
    for row in rows:
        if not isinstance(row, list) or [type(number) for number in row] != [int, int, int]:
            return ()
        first, last, group = row
        if not (runs[-1][1] if runs else -1) < first <= last <= HIGHEST or not 0 <= group <= HIGHEST:
            return ()
        runs.append((first, last, group))
    return tuple(runs)


def groups_of_next_tasks(runs: Iterable[GroupRun], tasks: range) -> dict[int, int]:
    """Return the groups of tasks by task; a run may be much longer than `tasks`."""
    return {
        task: group for first, last, group in runs for task in range(max(first, tasks.start), min(last + 1, tasks.stop))
    }


def choose_tasks_sharing_inputs(
    tasks: Sequence[int], groups: Mapping[int, int], here: Set[int], elsewhere: Set[int], count: int
) -> tuple[int, ...]:
    """Choose `count` of the next tasks, which are in order, for a cluster.

    Tasks whose shared file went to the cluster go first; then tasks without such a file, and groups whose file went to
    no cluster, one group after the other; last, groups whose file went to other clusters only.
    """
    first_tasks: dict[int, int] = {}
    for task in tasks:
        if task in groups:
            first_tasks.setdefault(groups[task], task)

    def order(task: int) -> tuple[int, int, int]:
        group = groups.get(task)
        if group is None:
            return 1, task, task
        if group in here:
            return 0, 0, task
        return 2 if group in elsewhere else 1, first_tasks[group], task

    return tuple(sorted(sorted(tasks, key=order)[:count]))
