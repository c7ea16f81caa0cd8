"""Publish which queues of a cluster run jobs only locally, for job submissions."""

from collections.abc import Container

from gridbridge.decisions.transfer.cluster_load_values import find_local_only_queues
from gridbridge.model.places import PUBLISHED
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.vocabulary import encode_local_queues
from gridbridge.shell import files
from gridbridge.state import published_values
from gridbridge.state.published_files import publish_file


def publish_local_only_queues(
    snapshot: ClusterSnapshot, transfer_queues: Container[str] = (), folder: str = PUBLISHED
) -> None:
    """Publish the queues that keep their jobs, if the list has changed.

    Poller and runner both call this whenever they get a snapshot.
    """
    queues = find_local_only_queues(snapshot.queues, transfer_queues)
    now = encode_local_queues(queues) if queues else None
    if published_values.read_local_only_queues(snapshot.cluster, folder) == now:
        return
    path = published_values.local_only_queues_path(snapshot.cluster, folder)
    if now:
        publish_file(path, now)
    else:
        files.remove_file(path)
