"""What a campaign's file says of the tasks of an array: the job that its cluster is asked for."""

import json

from gridbridge.batch.task import Task, script
from gridbridge.errors import NotACopy, ParseError
from gridbridge.methods.arrays.order import Order
from gridbridge.methods.arrays.steps import Steps
from gridbridge.methods.owner import Refused
from gridbridge.model.campaigns.hosts.properties import either, wanted
from gridbridge.model.campaigns.names import UNIQUE, ArrayId, words
from gridbridge.model.campaigns.numbers import read_attempts
from gridbridge.model.campaigns.steps import is_step
from gridbridge.model.request import JobSpec, Request
from gridbridge.state.verified_campaign import VerifiedCampaign

HEADER_KEYS = ("exec_directory", "project", "queue", "environment")
LIMITS = {"slots": 100_000, "walltime_s": 31_536_000}

ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what is no such file

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.state.ledger import Ledger

Header = dict[str, object]


class Content:
    """What the file says of one cluster, and of the tasks of each array."""

    def __init__(self, order: Order, brought: VerifiedCampaign, ledger: "Ledger") -> None:
        """Read it; Refused for what is no such file, NotACopy where nothing may be copied."""
        try:
            header = json.loads(brought.header())
            outputs = " ".join(map(str, header.get("outputs") or ()))
            token = str(header.get(UNIQUE, ""))  # none in files of earlier versions
            whole = {"name": header["name"], "outputs": outputs, UNIQUE: token}
            self._header: Header = header["clusters"][order.cluster] | whole
            is_declared = header.get("is_idempotent") is True or bool(outputs)
            self._steps = Steps(order, header["clusters"])
            self.tasks = _tasks(order, brought, ledger, self._steps)
        except (*ODD, ParseError) as error:
            raise Refused(f"{order.file}: {error!r}") from error
        if order.is_of_copies and not is_declared:
            why = "its tasks are declared neither idempotent nor with outputs"
            raise NotACopy(f"{order.file}: {why}")
        self._order = order

    def spec(self, array: ArrayId, tasks: tuple[Task, ...], person: str) -> JobSpec:
        """Return the job that an array is."""
        header, section = self._steps.header(self._header, tasks), self._order.section
        text = {key: str(header.get(key, "")) for key in HEADER_KEYS}
        amounts = {key: _amount(header, key, most) for key, most in LIMITS.items()}
        assert isinstance(section, dict)
        hosts = str(header.get("properties", ""))
        request = Request(
            hard=(("h_rt", str(amounts["walltime_s"])), *wanted(hosts)),
            either=either(hosts),
            types=("besteffort",) if header.get("is_besteffort") else (),
            project=text["project"],
            targets=text["queue"],
            groups=_groups(header, amounts["slots"]),
        )
        return JobSpec(
            transfer=str(array),
            request=request,
            script=script(self._settings(header, person, amounts, array.site), tasks),
            shell=str(section.get("shell", "/bin/sh")),
            pe=text["environment"],
            slots=amounts["slots"],
            tasks=len(tasks),
        )

    def _settings(
        self, header: Header, person: str, amounts: dict[str, int], site: str
    ) -> dict[str, str]:
        walltime_s = amounts["walltime_s"]
        clock = f"{walltime_s // 3600:02}:{walltime_s // 60 % 60:02}:{walltime_s % 60:02}"
        return {
            "campaign": str(self._order.campaign),
            "token": f"{site}.{header[UNIQUE]}",
            "cluster": self._order.cluster,
            "user": person,
            "slots": str(amounts["slots"]),
            "walltime": clock,
            "walltime_s": str(walltime_s),
            "directory": str(header.get("exec_directory", "")),
            "exec": _text(header, "exec_file"),
            "outputs": str(header["outputs"]),
        }


def _tasks(
    order: Order, brought: VerifiedCampaign, ledger: "Ledger", steps: Steps
) -> tuple[tuple[Task, ...], ...]:
    """Return the tasks of each array; which copy one is follows from the ledger."""
    asked = tuple(map(read_attempts, order.tasks))
    numbers = {task for each in asked for task, _ in each if not is_step(task)}
    lines = brought.lines(numbers, ledger)
    found = tuple(
        steps.task(each)
        if is_step(each[0][0])
        else tuple(Task(n, k, words(lines[n].decode("utf-8", "surrogateescape"))) for n, k in each)
        for each in asked
    )
    for array, tasks in zip(order.arrays, found, strict=True):
        for task in tasks if order.is_of_copies else ():
            task.copy = ledger.copies_of(task.number, before=array.array) + 1
    return found


def _text(header: Header, key: str) -> str:
    try:
        return str(header[key])
    except KeyError as error:
        raise Refused(f"no {key}") from error


def _groups(header: Header, slots: int) -> tuple[tuple[int, int], ...]:
    """Return the nodes and the slots of each; files of earlier versions have all on one node."""
    nodes = header.get("nodes", 1)
    if not isinstance(nodes, int) or nodes < 0 or (nodes and slots % nodes):
        raise Refused(f"nodes = {nodes!r}: as many of {slots} slots on each")
    return ((nodes, slots // nodes),) if nodes else ((0, slots),)


def _amount(header: Header, key: str, most: int) -> int:
    value = header.get(key)
    if not isinstance(value, int) or not 0 < value <= most:
        raise Refused(f"{key} = {value!r}: 1 to {most}")
    return value
