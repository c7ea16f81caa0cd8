"""Carries the input files of a campaign's tasks to a cluster, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.rebalance.replicas.task_input_carrier CAMPAIGN CLUSTER [TASKS [AT_CLUSTER]]. Predecessors'
outputs that the tasks AT_CLUSTER read are at the cluster, and perhaps not at home yet. Without TASKS the program
removes the campaign's files that no other campaign of the owner needs. The program prints one line of JSON. Exit
status: 0 done; 2 error, on standard error; 75 another such process of the owner runs for the cluster, or the campaign
has ended.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import count, islice

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_files_of_owners import read_inputs_of_own_tasks
from gridbridge.errors import (
    CopyNoLongerWanted,
    GridbridgeError,
    StorageAreaUnreachable,
    StorageAreaUnusable,
    error_on_one_line,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.model.fixed_paths import CONFIG, NOT_NOW, PUBLISHED, FixedPaths
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.rebalance.replicas import owner_datasets
from gridbridge.rebalance.replicas.carried_input_files import CarriedInputFolder, choose_files_to_remove
from gridbridge.rebalance.replicas.predecessor_outputs_at_cluster import find_predecessor_outputs
from gridbridge.rebalance.replicas.replicas_as_inputs import replica_paths_of_inputs
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_lock_file import MomentaryProgramLock

DONE, WRONG = 0, 2
LOOK_S = 5.0  # pause between two checks whether the campaign has ended
NEXT_TASKS = 200  # this many tasks after an array show what the campaign's next tasks lack at the cluster


def run_task_input_carrier() -> int:
    """Carry or remove the inputs that the command line names; return the exit status."""
    campaign, cluster, *tasks = int(sys.argv[1]), *sys.argv[2:]
    folder = os.path.expanduser("~/.gridbridge")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        policy, _ = configuration_in_force.load_config_or_one_in_force(CONFIG)
        area = storage_area_of_inputs(policy, cluster)
        scope = f"{folder}/inputs.{area.name or cluster}"  # clusters that share an area carry one after the other
        with MomentaryProgramLock(f"{scope}.lock") as is_alone:
            if not is_alone:
                return NOT_NOW
            watch = CampaignEndWatch(campaign, Clock())
            store = CarriedInputFolder(area, f"{scope}.links", is_unwanted=watch.has_campaign_ended)
            if not tasks:
                remove_unneeded_inputs(store, campaign)
            answer = _carry_inputs_of_tasks(store, policy, campaign, cluster, *tasks) if tasks else {}
            if answer is None:
                return NOT_NOW
    except CopyNoLongerWanted:
        return NOT_NOW
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps(answer))  # noqa: T201
    return DONE


def next_tasks_after(tasks: Set[int]) -> tuple[int, ...]:
    """Return the lowest numbers of tasks above the first of `tasks` that are not in `tasks`."""
    return tuple(islice((task for task in count(min(tasks) + 1) if task not in tasks), NEXT_TASKS))


def _carry_inputs_of_tasks(
    store: CarriedInputFolder, policy: Policy, campaign: int, cluster: str, tasks: str, at_cluster: str = ""
) -> dict[str, object] | None:
    """Carry the inputs of tasks, and return the answer for the runner; None if some inputs are not at home yet."""
    numbers = {task for task, _ in parse_attempt_ranges(tasks)}
    here = {task for task, _ in parse_attempt_ranges(at_cluster)} if at_cluster else set[int]()
    after = next_tasks_after(numbers)
    inputs = read_inputs_of_own_tasks(campaign, {*numbers, *after})
    now, later = ({task: inputs[task] for task in some if task in inputs} for some in (sorted(numbers), after))
    find_replicas = partial(replica_paths_of_inputs, policy, cluster)
    find_outputs = partial(find_predecessor_outputs, campaign, cluster, paths=FixedPaths())
    store.open_folder()
    find_here = partial(find_outputs, here, are_at_cluster=True)
    if not copy_outputs_of_predecessors(store, [now[task] for task in here & now.keys()], find_here):
        return None
    missing = carry_missing_inputs(store, now, find_replicas, partial(find_outputs, numbers))
    of_later = partial(find_outputs, later.keys())
    next_task_bytes = mean_missing_input_bytes(store, [*later.values()], find_replicas, of_later)
    amounts = {"copied_bytes": store.copied_bytes, "took_s": round(store.copying_s, 3)}
    return {"missing": missing, "next_task_bytes": next_task_bytes, **amounts}


class CampaignEndWatch:
    """Checks at intervals whether the service has published a campaign's end, for example after griddel."""

    def __init__(self, campaign: int, clock: Clock, published: str = PUBLISHED) -> None:
        self._campaign = campaign
        self._clock = clock
        self._published = published
        self._looks_at_s = clock.steady_s() + LOOK_S

    def has_campaign_ended(self) -> bool:
        if self._clock.steady_s() < self._looks_at_s:
            return False
        self._looks_at_s = self._clock.steady_s() + LOOK_S
        shown = campaign_client.published_campaigns(self._published)
        return any(campaign.number == self._campaign and not campaign.state.is_alive for campaign in shown)


def storage_area_of_inputs(policy: Policy, cluster: str) -> StorageAreaForAccount:
    """Return the cluster's storage area for input files, or else an area that stands for the owner's home."""
    name = policy.campaigns[cluster].inputs_storage if cluster in policy.campaigns else ""
    if name:
        return owner_datasets.storage_area_at_cluster(policy, name, cluster)
    where = configured_cluster_access(policy, cluster)
    account = where.login.user if where.login else ""
    return StorageAreaForAccount(
        name="", clusters=(cluster,), path="", account=account, login=where.login, timeout_s=where.timeout_s
    )


ReplicaFinder = Callable[[Collection[TaskInputFile]], Mapping[str, str]]  # files -> {checksum: path at the cluster}
OutputFinder = Callable[[Set[str]], Mapping[str, str]]  # paths at home -> {path at home: path at the cluster}


def copy_outputs_of_predecessors(
    store: CarriedInputFolder, inputs: Iterable[Iterable[TaskInputFile]], find_outputs: OutputFinder
) -> bool:
    """Copy outputs of predecessors inside the cluster, even if they are at home; say whether all were copied.

    Outputs inside folders, and removed outputs, are carried from home later.
    """
    files = {file.digest: file for of_task in inputs for file in of_task if file.is_made_by_predecessor}
    present = {copy.digest for copy in store.list_files(files)} if files else set[str]()
    absent = {digest: file.path for digest, file in files.items() if digest not in present}
    outputs = find_outputs({*absent.values()}) if absent else {}
    paths = {digest: outputs[path] for digest, path in absent.items() if path in outputs}
    return absent.keys() <= store.copy_made_files(paths)


def carry_missing_inputs(
    store: CarriedInputFolder,
    inputs: dict[int, tuple[TaskInputFile, ...]],
    find_replicas: ReplicaFinder = lambda _: {},
    find_outputs: OutputFinder = lambda _: {},
) -> dict[int, str]:
    """Bring missing files to the cluster; return the reason for each task that lacks a file.

    A replica at the cluster is linked, and a predecessor's output at the cluster is copied there. All other files are
    carried from home.
    """
    files = {file.digest: file for of_task in inputs.values() for file in of_task}
    whole = {
        copy.digest
        for copy in store.list_files(files)
        if (file := files[copy.digest]).is_made_by_predecessor or copy.size_bytes == file.size_bytes
    }
    store.record_use_of_files(whole)
    lacking = [file for digest, file in files.items() if digest not in whole and not file.is_made_by_predecessor]
    whole |= store.link_replicas(find_replicas(lacking), sum(file.size_bytes for file in lacking))
    wrong = {digest: why for digest in files.keys() - whole if (why := _why_file_not_readable(files[digest]))}
    absent = {
        name: _file_made_by_predecessor(file) if file.is_made_by_predecessor else file
        for name, file in files.items()
        if name not in whole and name not in wrong
    }
    if absent:
        of_predecessors = {file.path for file in files.values() if file.is_made_by_predecessor}
        wrong |= _carry_files(store, files.keys(), absent, find_outputs(of_predecessors) if of_predecessors else {})
    return {task: wrong[file.digest] for task, of_task in inputs.items() for file in of_task if file.digest in wrong}


def _carry_files(
    store: CarriedInputFolder, needed: Set[str], absent: dict[str, TaskInputFile], at_cluster: Mapping[str, str]
) -> dict[str, str]:
    """Copy the files of `absent` into the open folder, named by its keys; return errors of files that have changed."""
    copied = {file.digest: file for file in absent.values()}
    of_others = {file.digest for file in store.list_files(copied)} - absent.keys()
    lacking = {digest: file for digest, file in copied.items() if digest not in of_others}
    free_space_for_inputs(
        store, needed | copied.keys(), sum(file.size_bytes for file in lacking.values()) - store.free_bytes
    )
    try:
        paths = {digest: at_cluster[file.path] for digest, file in lacking.items() if file.path in at_cluster}
        within = store.copy_files_within_cluster((lacking[digest] for digest in paths), paths)
        changed = store.copy_files(file for digest, file in lacking.items() if digest not in within)
    except StorageAreaUnreachable:
        raise
    except StorageAreaUnusable:
        # perhaps a disk quota is used up, although the measured space of the disk was enough
        remove_unneeded_files(store, needed | copied.keys())
        raise
    store.rename_files({name: file.digest for name, file in absent.items() if file.digest not in changed}, of_others)
    why = "the content has changed since gridsub read it"
    return {name: f"{file.path}: {why}" for name, file in absent.items() if file.digest in changed}


def _file_made_by_predecessor(file: TaskInputFile) -> TaskInputFile:
    """Return a file that a predecessor has made, with its present size and checksum; raise OSError."""
    digest, size_bytes = safe_files.checksum_regular_file(file.path) or ("", 0)
    return TaskInputFile(file.name, file.path, size_bytes, digest)


def free_space_for_inputs(store: CarriedInputFolder, needed: Set[str], lacking_bytes: int) -> None:
    """Remove files until `lacking_bytes` are free; raise StorageAreaUnusable if this is impossible."""
    if lacking_bytes > 0:
        of_sent, of_waiting = _files_of_unfinished_tasks()
        store.remove_files(choose_files_to_remove(store.list_files(), of_sent.union(needed), of_waiting, lacking_bytes))


def remove_unneeded_files(store: CarriedInputFolder, needed: Set[str]) -> None:
    """Remove the files that no unfinished task of the account needs."""
    needed = frozenset(needed).union(*_files_of_unfinished_tasks())
    store.remove_files(file.digest for file in store.list_files() if file.digest not in needed)


def mean_missing_input_bytes(
    store: CarriedInputFolder,
    inputs: Sequence[Iterable[TaskInputFile]],
    find_replicas: ReplicaFinder = lambda _: {},
    find_outputs: OutputFinder = lambda _: {},
) -> float:
    """Return the bytes of files that are not at the cluster, divided by the number of tasks; 0 without tasks.

    A predecessor's output at the cluster does not count, because it is copied inside the cluster.
    """
    files = {file.digest: file for of_task in inputs for file in of_task}
    present = {file.digest for file in store.list_files(files)}
    present |= find_replicas([file for digest, file in files.items() if digest not in present]).keys()
    lacking = [file for digest, file in files.items() if digest not in present]
    made = {file.path for file in lacking if file.is_made_by_predecessor}
    at_cluster = find_outputs(made) if made else {}
    return sum(_size_now_bytes(file) for file in lacking if file.path not in at_cluster) / max(1, len(inputs))


def _size_now_bytes(file: TaskInputFile) -> int:
    """Return the size of a file; 0 if a predecessor of the campaign has not made the file yet."""
    try:
        return os.stat(file.path).st_size if file.is_made_by_predecessor else file.size_bytes
    except OSError:
        return 0


def remove_unneeded_inputs(store: CarriedInputFolder, campaign: int) -> None:
    """Remove the files of an ended campaign, except those that another unfinished campaign of the owner needs."""
    unneeded = frozenset(_digests_of_own_campaigns([campaign])) - _digests_of_other_campaigns(campaign)
    store.open_folder()
    store.remove_files(unneeded)
    store.remove_empty_folder()


def _why_file_not_readable(file: TaskInputFile) -> str:
    try:
        opened = safe_files.open_regular_without_blocking(file.path, os.O_RDONLY)
        size_bytes = os.fstat(opened).st_size
        os.close(opened)
    except OSError as error:
        return f"{file.path}: {error.strerror}"
    is_same = file.is_made_by_predecessor or size_bytes == file.size_bytes
    return "" if is_same else f"{file.path}: {size_bytes} bytes; expected {file.size_bytes}, as gridsub found"


def _files_of_unfinished_tasks() -> tuple[frozenset[str], frozenset[str]]:
    """Return the checksums of the input files of the account's tasks at clusters, and of tasks that wait."""
    of_sent, of_waiting = set[str](), set[str]()
    for shown in campaign_client.published_campaigns(PUBLISHED):
        try:
            inputs = read_inputs_of_own_tasks(shown.number) if shown.state.is_alive else {}
        except GridbridgeError:
            continue  # a campaign of another account
        for task in campaign_client.list_published_tasks(shown, 0, PUBLISHED) if any(inputs.values()) else ():
            if not task.has_ended:
                digests = of_waiting if task.is_waiting else of_sent
                digests.update(file.digest for file in inputs.get(task.number, ()))
    return frozenset(of_sent), frozenset(of_waiting)


def _digests_of_other_campaigns(campaign: int) -> frozenset[str]:
    """Return the checksums of all inputs of the account's other unfinished campaigns."""
    return frozenset(_digests_of_own_campaigns(_unfinished_campaigns_besides(campaign)))


def _unfinished_campaigns_besides(campaign: int) -> set[int]:
    return {shown.number for shown in campaign_client.published_campaigns(PUBLISHED) if shown.state.is_alive} - {
        campaign
    }


def _digests_of_own_campaigns(numbers: Iterable[int]) -> Iterable[str]:
    for number in numbers:
        try:
            inputs = read_inputs_of_own_tasks(number)
        except GridbridgeError:
            continue  # a campaign of another account
        for of_task in inputs.values():
            yield from (file.digest for file in of_task)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(run_task_input_carrier())
