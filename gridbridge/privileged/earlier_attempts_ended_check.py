"""Makes sure that no earlier attempt of a task lives when root sends a new attempt.

For a silent or removed cluster, root relies on the service's claim that earlier attempts have ended.
"""

import json
import time

from gridbridge.batch import load_campaign_array_adapter
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.campaigns.campaign_file_and_array_names import CampaignArrayId
from gridbridge.model.fixed_paths import CAMPAIGNS, TAKEN_REQUEST
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import (
    UNREADABLE,
    AsUserRequestRefusal,
    OwnerRequestNotYetPossible,
)
from gridbridge.privileged.owner_worker import CampaignOwnerWorker
from gridbridge.shell import safe_files

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from gridbridge.campaigns.store.root_ledger import Earlier
    from gridbridge.privileged.owner_worker import Answers


ASKS_S = 10.0  # timeout of the queries to one cluster
ALL_ASK_S = 20.0  # timeout of the queries to all clusters
BY_NAME = "+"  # marks a job id in a query that must also find jobs by the array's submission name


def require_earlier_attempts_ended(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks, index: int) -> None:
    """Raise OwnerRequestNotYetPossible while an earlier attempt of a task waits or runs."""
    latest = time.monotonic() + ALL_ASK_S
    at: dict[str, list[Earlier]] = {}
    for earlier in ledger.arrays_with_same_tasks(order.arrays[index].array, order.tasks[index]):
        at.setdefault(earlier[1], []).append(earlier)
    for cluster, attempts in at.items():
        limit_s = min(ASKS_S, latest - time.monotonic())
        if order.is_configured_cluster(cluster) and limit_s > 0:
            _require_attempts_ended(order.with_cluster(cluster), ledger.uid, attempts, limit_s)


def _require_attempts_ended(order: AsUserArrayArguments, uid: int, earlier: "list[Earlier]", limit_s: float) -> None:
    questions = [
        f"{number}={job}{'' if job and not is_repeated else BY_NAME}" for number, _, job, is_repeated, _ in earlier
    ]
    try:
        worker = CampaignOwnerWorker(uid, lambda person: _live_task_index_query(order, person), limit_s)
        living = _parse_live_indices(worker.send_request_to_owner_process(*questions))
    except OwnerRequestNotYetPossible:
        raise
    except (GridbridgeError, OSError, ValueError):
        return
    for number, cluster, _, _, indices in earlier:
        if any(_do_task_indices_overlap(indices, span) for span in living.get(str(number), ())):
            raise OwnerRequestNotYetPossible(f"an earlier attempt of a task is still at {cluster}, in array {number}")


def _live_task_index_query(order: AsUserArrayArguments, person: str) -> "Answers":
    """Return a function that asks the cluster for the array indices of tasks that wait or run.

    An array is searched by its submission name if its job id is unknown, or if a lost answer led to a second
    submission.
    """
    far, account = order.access_and_account_of_user(person)
    adapter = load_campaign_array_adapter(far)

    def find_job_ids(name: str, job: str) -> list[str]:
        job = job or adapter.find_held_job(far, name, account)
        return [job, *adapter.find_duplicate_arrays(far, name, account, job)] if job else []

    def query_live_indices(words: list[str]) -> str:
        jobs: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for word in words:
            number, _, job = word.partition("=")
            name = str(CampaignArrayId(order.arrays[0].site, order.campaign, int(number)))
            plain = job.removesuffix(BY_NAME)
            jobs[number] = [plain] if plain == job else find_job_ids(name, plain)
            names.update(dict.fromkeys(jobs[number], name))
        at = adapter.query_live_indices(far, names) if names else {}
        spans = {number: [span for job in ids for span in at[job]] for number, ids in jobs.items()}
        return " ".join(
            f"{number}={','.join(f'{span.start}:{span.stop}:{span.step}' for span in spans[number])}" for number in jobs
        )

    def answer_live_index_request(words: list[str]) -> str:
        try:
            return query_live_indices(words)
        except CommandFailed:  # the cluster does not answer
            raise
        except (GridbridgeError, ValueError) as error:
            raise OwnerRequestNotYetPossible(f"{order.cluster}: {error}") from error

    return answer_live_index_request


def _parse_live_indices(text: str) -> dict[str, list[range]]:
    living = {}
    for word in text.split():
        number, _, spans = word.partition("=")
        bounds = [tuple(map(int, span.split(":"))) for span in spans.split(",") if span]
        living[number] = [range(begin, end, step) for begin, end, step in bounds]
    return living


def _do_task_indices_overlap(indices: list[int], living: range) -> bool:
    """Say whether `indices` and `living` overlap; the cost grows with the shorter list."""
    if len(indices) < len(living):
        return any(index in living for index in indices)
    return not set(indices).isdisjoint(living)


ROOT = 0


def require_owner_retry_request(token: str, campaign: int, uid: int) -> str:
    """Return the identity of an owner's request file, which stays the same when the file is renamed.

    Raises AsUserRequestRefusal if another user wrote the request, or if it does not ask to resubmit tasks.
    """
    if not (token.isascii() and token.isalnum()):
        raise AsUserRequestRefusal(f"{token!r} is not the name of a request")
    path = f"{CAMPAIGNS}/{TAKEN_REQUEST}{token}"
    try:
        data, facts = safe_files.read_file_only_owner_writes(path, 1 << 16)
        request = json.loads(data)
        is_asked = request["verb"] == "resubmit" and campaign in request["of"]
    except UNREADABLE as error:
        raise AsUserRequestRefusal(f"{path}: {error!r}") from error
    if not is_asked or facts.st_uid not in (uid, ROOT):
        raise AsUserRequestRefusal(f"{path}: expected the owner's resubmit request for campaign {campaign}")
    return f"{facts.st_ino}.{facts.st_mtime_ns}"
