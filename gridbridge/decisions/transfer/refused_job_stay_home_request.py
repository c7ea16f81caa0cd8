"""Change the request of a job that a remote cluster refused, so that it starts in no transfer queue.

`remote=false` also excludes transfer queues that are made later; a queue list (sge_types(1)) excludes the present
queues.
"""

from collections.abc import Collection, Iterator, Mapping

from gridbridge.model.job_request import Variant
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.claim_and_guard import Pairs


def stay_home_request_changes(hard: Pairs, queues: str, transfer_queues: Collection[str]) -> tuple[Variant, ...]:
    """Return changes of a job's request, each of which keeps the job at home, the best change first.

    Empty `queues` means any queue. A job with `remote=true` gets no change.
    """
    if claim_and_guard.does_job_request_remote(hard):
        return ()
    queues_kept = drop_transfer_queues_from_list(queues, transfer_queues)
    by_queue: tuple[Variant, ...] = ((None, queues_kept),) if queues_kept else ()
    return ((claim_and_guard.restrict_request_to_home(hard), None), *by_queue)


def drop_transfer_queues_from_list(queues: str, transfer_queues: Collection[str]) -> str:
    without = "&".join(f"!{queue}" for queue in sorted(transfer_queues))
    words = queues.split(",") if queues else [""]
    kept = (_home_part_of_queue_word(word, transfer_queues, without) for word in words)
    return ",".join(word for part in kept for word in part)


def _home_part_of_queue_word(word: str, transfer_queues: Collection[str], exclusion: str) -> Iterator[str]:
    queue, at, host = word.partition("@")
    if queue in transfer_queues:
        return
    if queue in claim_and_guard.ANY:
        yield f"{exclusion}{at}{host}"
    elif claim_and_guard.OPERATORS.isdisjoint(queue):
        yield word
    else:
        yield f"({queue})&{exclusion}{at}{host}"


YES, NO = "yes", "no"


def rerun_policy_by_home_queues(hard: Pairs, queues: str, own: Mapping[str, str]) -> str:
    """Return yes or no: whether a job may run again according to the home queues that fit the job.

    `own` maps non-transfer queues to `rerun`. One FALSE, even for one host, means no. Without a fitting queue the
    answer is no, Grid Engine's default.
    """
    says = [rerun for name, rerun in own.items() if claim_and_guard.may_queue_list_include(queues, name)]
    is_barred = any("FALSE" in setting.upper() for setting in says)
    may = says and not claim_and_guard.does_job_request_remote(hard) and not is_barred
    return YES if may else NO
