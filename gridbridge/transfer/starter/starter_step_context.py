"""Hold the state of a starter's step: notes, route, clusters and request."""

from gridbridge.batch import load_home_job_control, load_submit_adapter
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer_message import TransferMessage, TransferMessageKind
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.transfer.starter.local_task import LocalTask, message_timestamp


class StarterStepContext:
    """The state of a starter's step, with the notes of earlier steps."""

    def __init__(self, task: LocalTask, intent: str, arguments: tuple[str, ...]) -> None:
        self.task = task
        self.noted = intent
        self.left_out = ""  # omitted parts of the request, with reasons
        self.is_sure = False  # whether the remote job's owner and account were checked
        self.arguments = arguments
        self._request: JobRequest | None = None
        self.record = task.record() or TransferMessage()
        self.may_be_there = (
            self.record.kind == TransferMessageKind.RECORD
        )  # whether a killed step may have submitted the remote job
        self.go_by(task.route(self.record.queue))
        self.require_same(self.record)
        self.home = load_home_job_control(self.route.home)

    def go_by(self, route: TransferRoute) -> None:
        """Use the route of a queue: the task's own, or the queue that began the transfer."""
        self.route = route
        self.away = self.task.remote_system(route)
        self.far = load_submit_adapter(self.away)
        if self.away.login:  # all requests of this step go over one connection
            from gridbridge.shell import ssh, ssh_session

            ssh.set_ssh_request_carrier(ssh_session.SshSessionsOfProgram())

    def require_same(self, record: TransferMessage) -> None:
        """Raise GridbridgeError if the queue's route leads to another cluster by now."""
        if record.remote and self.route.remote != record.remote:
            leads = f"queue {record.queue} leads to {self.route.remote} by now"
            raise GridbridgeError(f"{leads}; expected {record.remote}")

    @property
    def request(self) -> JobRequest:
        """The local job's request, which is queried at home once a step."""
        if self._request is None:
            self._request = self.home.query_job_request(self.route.home, str(self.task.job))
        return self._request

    def note(self, **values: str) -> None:
        """Note the transfer's progress before the starter's next act."""
        self.record = self.record.but(at=message_timestamp(), cause="", reason=self.left_out, **values)
        self.task.save(self.record)
