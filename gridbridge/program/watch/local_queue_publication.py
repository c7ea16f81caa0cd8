"""Publish which queues of a cluster run jobs only locally, for job submissions."""

from collections.abc import Container

from gridbridge.decisions.local_only_queues import local_queues
from gridbridge.model.places import PUBLISHED
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.vocabulary import encode_queues
from gridbridge.shell import files
from gridbridge.state import published_values
from gridbridge.state.published_files import put


def show(
    snapshot: ClusterSnapshot, transfer_queues: Container[str] = (), folder: str = PUBLISHED
) -> None:
    """Publish the queues that keep their jobs, if the list has changed.

    Poller and runner both call this whenever they get a snapshot.
    """
    queues = local_queues(snapshot.queues, transfer_queues)
    now = encode_queues(queues) if queues else None
    if published_values.read_stay(snapshot.cluster, folder) == now:
        return
    path = published_values.stay_path(snapshot.cluster, folder)
    if now:
        put(path, now)
    else:
        files.remove(path)
