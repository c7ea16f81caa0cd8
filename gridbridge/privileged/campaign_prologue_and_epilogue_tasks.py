"""Makes the job of a campaign's prologue or epilogue at a cluster: a single task with one slot."""

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask
from gridbridge.model.campaigns.task_index_and_attempt_texts import Attempts, step_and_cluster_of_task_number
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal

PLAIN = {
    "exec_file": "sh -c",
    "slots": 1,
    "side_by_side": 1,
    "nodes": 1,
    "environment": "",
    "outputs": "",
    "checkpoints": "",
}


def prologue_or_epilogue_tasks(
    order: AsUserArrayArguments, clusters: "dict[str, dict[str, object]]", attempts: Attempts
) -> tuple[CampaignArrayScriptTask, ...]:
    """Return the task of a prologue or epilogue; raise AsUserRequestRefusal for a copy or a missing step."""
    ((number, attempt),) = attempts
    step, cluster = step_and_cluster_of_task_number(number, clusters)
    lines = clusters[cluster].get(step)
    if order.is_of_copies or cluster != order.cluster or not lines:
        raise AsUserRequestRefusal(f"{order.file}: the campaign has no {step} at {order.cluster}")
    task = CampaignArrayScriptTask(number, attempt, (str(lines),))
    task.label = step
    return (task,)


def header_of_array(header: "dict[str, object]", tasks: tuple[CampaignArrayScriptTask, ...]) -> "dict[str, object]":
    """Return an array's job settings; a prologue or epilogue has its own walltime."""
    label = tasks[0].label
    return header | PLAIN | {"walltime_s": header.get(f"{label}_walltime_s")} if label else header
