"""The acts on transfers: each reads again what it depends on, and may be repeated."""

from collections.abc import Callable, Mapping

from gridbridge.model.job import JobEnd
from gridbridge.model.message import StarterMessage
from gridbridge.model.places import PUBLISHED, SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.transfer.acts.claim_files import ClaimFiles
from gridbridge.transfer.acts.local_tasks import LocalTasks
from gridbridge.transfer.acts.remote_jobs import RemoteJobs
from gridbridge.transfer.acts.verdict_files import VerdictFiles


class TransferActs:
    """Carries out actions that need a cluster, each in a thread of its own; has all subjects."""

    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        self.verdicts = VerdictFiles(policy, folder, spool)
        self.claims = ClaimFiles(policy, spool)
        self.tasks = LocalTasks(policy)
        self.remote = RemoteJobs(policy, self.tasks)
        self._far: Mapping[TransferAct, Callable[[TransferAction], StarterMessage | None]] = {
            TransferAct.DELETE_REMOTE: self.remote.delete,
            TransferAct.GIVE_UP: self.remote.give_up,
            TransferAct.LOOK_UP_END: self.remote.look_up_end,
            TransferAct.ADOPT_LOCAL: self.tasks.adopt,
            TransferAct.GUARD_LOCAL: self.tasks.guard,
            TransferAct.RELEASE_LOCAL: self.tasks.release,
            TransferAct.UNPIN: self.tasks.unpin,
        }

    def follow(self, policy: Policy) -> None:
        """Obey a changed configuration from now on."""
        for subject in (self.verdicts, self.claims, self.tasks, self.remote):
            subject.follow(policy)

    def far(self, action: TransferAction) -> StarterMessage | None:
        """Carry out an act that needs a cluster; a verdict comes back when one was learned."""
        return self._far[action.act](action)

    def judge(self, end: JobEnd, transfer: Transfer) -> StarterMessage:
        """Return the verdict that an end stands for."""
        return self.remote.judge(end, transfer)
