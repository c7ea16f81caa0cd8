"""What the service does to local tasks of an embedded cluster, where a hold is the only guard."""

from collections.abc import Callable, Collection, Iterable, Mapping

from gridbridge.batch.embedded import embedded_home, submit
from gridbridge.errors import GridbridgeError
from gridbridge.model.ids import TransferId
from gridbridge.model.request import JobRequest, Variant
from gridbridge.model.route import EmbeddedFolder

NEVER_AGAIN = "no"


def release(folder: EmbeddedFolder, local: TransferId, guard: str) -> None:
    """Take the hold back, the only guard here."""
    del guard
    submit.release(folder, local.local)


def adopt(folder: EmbeddedFolder, local: TransferId, queue: str, guard: str) -> None:
    """Pin the job to the queue, then let it go there."""
    embedded_home.pin(folder, local.local, queue)
    release(folder, local, guard)


def guard(folder: EmbeddedFolder, local: TransferId, guard: str) -> None:
    """Hold a task: there is no other guard here."""
    del guard
    submit.hold(folder, local.local)


def requests_of(folder: EmbeddedFolder, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
    """Tell nothing: every guard shows here."""
    del folder, jobs
    return {}


def deferred(folder: EmbeddedFolder) -> frozenset[int]:
    """Tell of none: no job here has a start time."""
    del folder
    return frozenset()


def keep_off(folder: EmbeddedFolder, local: TransferId, other_queues: Callable[[str], str]) -> None:
    """Refuse: no task is recalled to an embedded cluster (services.transfer.recalls)."""
    del folder, other_queues
    raise GridbridgeError(f"job {local.job} is not recalled to an embedded cluster")


def unpin(folder: EmbeddedFolder, local: TransferId) -> None:
    """Take the pin back."""
    embedded_home.pin(folder, local.local, "")


def check(
    folder: EmbeddedFolder, local: TransferId, variants: Callable[[JobRequest], Iterable[Variant]]
) -> None:
    """Refuse: no task is recalled to an embedded cluster (services.transfer.recalls)."""
    del folder, variants
    raise GridbridgeError(f"job {local.job} is not recalled to an embedded cluster")


def rerun(
    folder: EmbeddedFolder,
    local: TransferId,
    transfer_queues: Collection[str],
    of_queues: Callable[[JobRequest, Mapping[str, str]], str],
) -> str:
    """Say no: an embedded cluster runs no job again."""
    del folder, local, transfer_queues, of_queues
    return NEVER_AGAIN
