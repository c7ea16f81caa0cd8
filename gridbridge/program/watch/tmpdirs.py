"""Find the TMPDIR folders of the transfer queues, where starters write their notes."""

from collections.abc import Callable

from gridbridge.batch import load_home_adapter
from gridbridge.batch.clusters import reach_home_cluster
from gridbridge.model.policy import Policy
from gridbridge.program.work.background_query import BackgroundQuery
from gridbridge.program.work.workers import OwnerThreadPools
from gridbridge.shell import host

ASK_S = 600.0  # between two queries: an administrator may move the folder
TMPDIR = "tmpdir"  # queue_conf(5)


class TmpdirFolderQuery:
    """Queries the home cluster for TMPDIR folders in the background."""

    def __init__(
        self, policy: Policy, workers: OwnerThreadPools, clock: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._known: frozenset[str] = frozenset()
        self._question = BackgroundQuery[tuple[str, ...], frozenset[str]](
            workers, policy.site.cluster, TMPDIR, self._ask, clock, ASK_S
        )

    def follow(self, policy: Policy) -> None:
        """Use another configuration from now on."""
        self._policy = policy

    def folders(self) -> frozenset[str]:
        """Return the folders of the last query; none before its first result."""
        if answer := self._question.answer():
            self._known = answer[1]
        queues = () if self._policy.why_no_queues else tuple(self._policy.queues)
        if queues and self._question.may_ask():
            self._question.ask(queues)
        return self._known

    def _ask(self, queues: tuple[str, ...]) -> frozenset[str]:
        at, host_name = (
            reach_home_cluster(self._policy, self._policy.site.cluster),
            host.this_host_name(),
        )
        folders = (
            load_home_adapter(at).query_queue_limit(at, queue, TMPDIR, host_name)
            for queue in queues
        )
        return frozenset(folder for folder in folders if folder.startswith("/"))
