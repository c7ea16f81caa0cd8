"""Finds input files of tasks among predecessors' outputs that are still at the tasks' cluster.

The output at the cluster is used only if its checksum equals that of the file at home.
"""

import os
from collections.abc import Collection, Iterator

from gridbridge.campaigns.cli import task_output_reading_and_fetching
from gridbridge.campaigns.store import campaign_client, campaign_files_of_owners, published_campaign_files
from gridbridge.campaigns.store.published_campaign_files import A_FILE
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorCondition
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign
from gridbridge.model.campaigns.task_file_patterns import targets_of_outputs
from gridbridge.model.fixed_paths import FixedPaths

MOST_TASKS = 10_000  # if the whole campaign waits for a predecessor, this many tasks of the predecessor are searched


def find_predecessor_outputs(
    campaign: int,
    cluster: str,
    tasks: Collection[int],
    inputs: Collection[str],
    paths: FixedPaths,
    *,
    are_at_cluster: bool = False,
) -> dict[str, str]:
    """Return {path at home: path relative to the home at the cluster} of some `inputs`; {} after an error.

    With `are_at_cluster` the runner knows that the outputs of the same tasks of predecessors are at the cluster, and no
    error is ignored.
    """
    outputs: dict[str, str] = {}
    try:
        for shown, is_by_task in _predecessors_of_own_campaign(campaign, paths):
            if are_at_cluster and not is_by_task:
                continue
            numbers = tasks if is_by_task else range(min(shown.tasks, MOST_TASKS))
            outputs |= _find_outputs_of_campaign(shown.number, cluster, numbers, inputs, paths, are_at_cluster)
    except (GridbridgeError, ValueError, TypeError) as error:
        if are_at_cluster:
            raise StateError(f"outputs of predecessors at {cluster}: {error}") from error
        return {}  # no output is found, so the files are carried from home
    return outputs


def _predecessors_of_own_campaign(campaign: int, paths: FixedPaths) -> Iterator[tuple[PublishedCampaign, bool]]:
    """Yield each predecessor, and whether the campaign waits for it task by task."""
    header, _ = campaign_files_of_owners.read_own_campaign_header_and_lines(campaign, paths.campaigns, ())
    published = campaign_client.published_campaigns(paths.published)
    owner = next((shown.owner for shown in published if shown.number == campaign), "")
    earlier = [shown for shown in published if shown.owner == owner and shown.number < campaign]
    for fields in header.get("after", ()):
        predecessor = CampaignPredecessor(**fields)
        named = [shown for shown in earlier if predecessor.number in (0, shown.number)]
        named = [shown for shown in named if predecessor.number or predecessor.name == shown.name]
        if named:
            yield named[-1], predecessor.condition == PredecessorCondition.SAME


def _find_outputs_of_campaign(
    number: int,
    cluster: str,
    tasks: Collection[int],
    inputs: Collection[str],
    paths: FixedPaths,
    are_at_cluster: bool,
) -> dict[str, str]:
    source = task_output_reading_and_fetching.own_campaign_output_folders(number, paths, tasks).get(cluster)
    if source is None or not source.outputs_to:
        return {}
    outputs = {
        os.path.join(source.outputs_to, target): (task, f"{source.folder}/{task}/{name}")
        for task, line in source.lines.items()
        for name, target in targets_of_outputs(source.outputs, task, line)
    }
    of_inputs = {path: outputs[path] for path in inputs if path in outputs}
    of_tasks = {task for task, _ in of_inputs.values()}
    at_cluster = of_tasks if are_at_cluster else _succeeded_tasks_at_cluster(number, cluster, of_tasks, paths.published)
    return {path: output for path, (task, output) in of_inputs.items() if task in at_cluster}


def _succeeded_tasks_at_cluster(number: int, cluster: str, tasks: Collection[int], folder: str) -> set[int]:
    succeeded = set[int]()
    for part in {task // A_FILE for task in tasks}:
        for task in published_campaign_files.read_published_task_file(number, part, folder).values():
            if task.cluster == cluster and task.outcome is TaskAttemptOutcome.SUCCESS:
                succeeded.add(task.number)
    return succeeded.intersection(tasks)
