"""Makes the job of a campaign's prologue or epilogue at a cluster: a single task with one slot."""

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    step_and_cluster_of_task_number,
)
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_request_steps import AsUserRequestRefusal

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.model.campaigns.task_index_and_attempt_texts import Attempts

RUN = "sh -c"  # command that runs a prologue or epilogue
PLAIN = {"exec_file": RUN, "slots": 1, "nodes": 1, "environment": "", "outputs": ""}


class PrologueAndEpilogueTasks:
    """The prologue and epilogue of a campaign at the cluster of a request."""

    def __init__(self, order: AsUserArrayArguments, clusters: "dict[str, dict[str, object]]") -> None:
        self._order = order
        self._clusters = clusters

    def task(self, attempts: "Attempts") -> tuple[CampaignArrayScriptTask, ...]:
        """Return the single task of an array that is a prologue or epilogue.

        Raises AsUserRequestRefusal for a speculative attempt, and if the campaign file has no prologue or epilogue.
        """
        ((number, attempt),) = attempts
        step, cluster = step_and_cluster_of_task_number(number, self._clusters)
        lines = self._clusters[cluster].get(step)
        if self._order.is_of_copies or cluster != self._order.cluster or not lines:
            raise AsUserRequestRefusal(f"{self._order.file}: the campaign has no {step} at {self._order.cluster}")
        task = CampaignArrayScriptTask(number, attempt, (str(lines),))
        task.label = step
        return (task,)

    @staticmethod
    def header(header: "dict[str, object]", tasks: tuple[CampaignArrayScriptTask, ...]) -> "dict[str, object]":
        """Return an array's job settings; a prologue or epilogue has its own walltime."""
        if not tasks[0].label:
            return header
        return header | PLAIN | {"walltime_s": header.get(f"{tasks[0].label}_walltime_s")}
