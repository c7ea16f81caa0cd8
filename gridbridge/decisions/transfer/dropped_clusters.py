"""Transfers whose cluster was taken out of gridbridge.toml: they wait, and people are told so."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from gridbridge.model.places import CONFIG
from gridbridge.model.published import ShownTransfer
from gridbridge.model.site.setup_findings import CheckFinding, FindingState


def sentence(cluster: str) -> str:
    """Say why a transfer to this cluster does not go on."""
    return f"{CONFIG} has no [cluster.{cluster}], so nobody asks what became of it"


def wait(cluster: str) -> str:
    """Say what such a transfer waits for."""
    until = f"until then nobody asks {cluster}, and the job counts as alive"
    return f"[cluster.{cluster}] to be in {CONFIG} again: {until}"


def findings(
    transfers: Iterable[ShownTransfer], clusters: Collection[str]
) -> Iterator[CheckFinding]:
    """Warn of each cluster that open transfers lead to and that is not configured."""
    counts = Counter(transfer.remote for transfer in transfers if transfer.remote not in clusters)
    for cluster, count in sorted(counts.items()):
        yield CheckFinding(
            item=f"{cluster}: open transfers",
            state=FindingState.WARNING,
            found=f"{count}, and no [cluster.{cluster}] in {CONFIG}",
            right="none, or the cluster configured",
            hint=f"put [cluster.{cluster}] back until they are over;"
            f" without a [queue.NAME] nothing new is sent there",
        )
