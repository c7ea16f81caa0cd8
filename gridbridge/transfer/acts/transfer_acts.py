"""The service's acts on transfers; each act re-reads its facts and is repeatable."""

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
    """Runs acts on transfers; an act that needs a cluster has a thread of its own."""

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
        """Apply a changed gridbridge.toml to later acts on transfers."""
        for subject in (self.verdicts, self.claims, self.tasks, self.remote):
            subject.follow(policy)

    def far(self, action: TransferAction) -> StarterMessage | None:
        """Run an act at a cluster; return the transfer's verdict if the act found the end."""
        return self._far[action.act](action)

    def judge(self, end: JobEnd, transfer: Transfer) -> StarterMessage:
        """Return the verdict for a remote job's end."""
        return self.remote.judge(end, transfer)
