"""gridbridge-as-user VERB FILE [CLUSTER ARRAY [TASKS | PLACES]]: arrays, as a campaign's owner.

The service names a person's own campaign file and numbers of tasks, never a command. What is run
stands in that file, which must be as it was at the first call, and each attempt of a task is
submitted once: root's ledger knows, and `list-arrays` tells it. `submit-copies` submits tasks once
more while earlier attempts run, if that file allows it. Exit status as gridbridge-as-user's, and 4:
the cluster refuses it, 5: the ledger has these tasks in another array, 75: not now.
"""

import json
import os
import shlex
from typing import NoReturn

from gridbridge.batch import arrays_of
from gridbridge.batch.submission import Result
from gridbridge.batch.task import Task, script
from gridbridge.errors import GridbridgeError, NotACopy, NotOurs, ParseError, Untrusted
from gridbridge.methods import owner
from gridbridge.methods.array_queues import kept_there
from gridbridge.methods.owner import LIMIT_S, NoAccount, NotNow, Refused
from gridbridge.model.campaigns.names import ArrayId
from gridbridge.model.campaigns.numbers import read_attempts, read_places
from gridbridge.model.configured import away
from gridbridge.model.ids import is_cluster_name
from gridbridge.model.places import CONFIG, NOT_NOW, REFUSED_THERE
from gridbridge.model.request import JobSpec, Request
from gridbridge.model.route import Away
from gridbridge.state.campaign_brought import Brought
from gridbridge.state.ledger import Ledger

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable

STATUS = {Result.LATER: NOT_NOW, Result.BARRED: NOT_NOW, Result.UNSURE: owner.FAILED}
SUBMITTING = ("submit-array", "submit-copies")
HEADER_KEYS = ("exec_directory", "project", "queue", "environment")
LIMITS = {"slots": 100_000, "walltime_s": 31_536_000}


class Order:
    """What is asked for, and the file that it is about."""

    def __init__(self, arguments: list[str]) -> None:
        """Read the arguments, the configuration and the file; Refused for anything odd."""
        verb, file, cluster, number, *tasks = [*arguments, "", "", "", ""][: max(4, len(arguments))]
        self.config = _read_config()
        self.section = self.config.get("cluster", {}).get(cluster)
        site = str(self.config.get("site", {}).get("cluster", ""))
        campaign = file.removeprefix("c.")
        if not (_is_number(campaign) and _is_number(number) and file != campaign):
            usage = "c.CAMPAIGN CLUSTER ARRAY [TASKS | PLACES]"
            raise Refused(f"usage: gridbridge-as-user {verb} {usage}")
        if not isinstance(self.section, dict) or not is_cluster_name(site):
            raise NotNow(f"{CONFIG}: no cluster {cluster!r}")
        self.verb, self.cluster, self.number = verb, cluster, int(number)
        self.is_of_copies = verb == "submit-copies"
        self.tasks = tasks[0] if tasks else ""  # places of an array that is to be deleted
        self.array = ArrayId(site, int(campaign), self.number)
        if verb == "delete-array" and tasks:
            _require_places(self.tasks)  # none would be the whole array
        self.file = file

    def reached_by(self, person: str) -> "tuple[Away, str]":
        """Return the cluster as its owner reaches it, and whose account that is there."""
        assert isinstance(self.section, dict)
        far = away(self.section, self.cluster, person)
        return far, far.login.user if far.login else person


def _read_config() -> "dict[str, dict[str, object]]":
    """Read the configuration; while something is wrong with it no campaign fails for that."""
    try:
        return owner.read_config(CONFIG)
    except (Refused, Untrusted) as error:
        raise NotNow(str(error)) from error


def perform(arguments: list[str]) -> NoReturn:
    """Check everything, then act in a process of its own as the owner of the campaign."""
    if arguments[0] == "list-arrays":
        _list(arguments[1:])
    order = Order(arguments)
    with Ledger(order.array.campaign) as ledger:
        if order.verb in SUBMITTING:
            job = _submitted(order, ledger)
        elif not ledger.uid and order.verb == "delete-array":
            job = ""  # nothing of this campaign was ever submitted
        else:
            owner.require_person(order.config, order.file, ledger.uid)
            job = _acted(order, ledger)
    os.write(1, f"{job}\n".encode())
    os._exit(0)


def _list(arguments: list[str]) -> NoReturn:
    """Tell what root's ledger has of a campaign: a line an array, its id last where it is known."""
    campaign = arguments[0].removeprefix("c.") if arguments else ""
    if len(arguments) != 1 or not _is_number(campaign) or arguments[0] == campaign:
        raise Refused("usage: gridbridge-as-user list-arrays c.CAMPAIGN")
    with Ledger(int(campaign)) as ledger:
        told = "".join(f"{' '.join(row)}\n" for row in ledger.arrays())
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(told.encode())
    os._exit(0)


def _submitted(order: Order, ledger: Ledger) -> str:
    """Submit what was not submitted before; its id is in the ledger before it is told."""
    if job := ledger.job(order.number):
        ledger.intend(order.number, order.cluster, order.tasks, order.is_of_copies)
        return job
    brought = Brought(order.array.campaign)
    owner.require_person(order.config, brought.file, brought.uid)
    brought.note(ledger)
    header, chosen = read_tasks(order, brought, ledger)
    ledger.intend(order.number, order.cluster, order.tasks, order.is_of_copies)
    for task in chosen if order.is_of_copies else ():
        task.copy = ledger.copies_of(task.number, before=order.number) + 1
    is_first = not ledger.was_repeated(order.number)
    job = _as_owner(
        brought.uid,
        lambda person: submit(order, header, chosen, person, is_first, *order.reached_by(person)),
    )
    ledger.submitted(order.number, job)
    return job


def _acted(order: Order, ledger: Ledger) -> str:
    """Release or delete an array; of one that was submitted several times nothing else is left."""
    job, name = ledger.job(order.number), str(order.array)
    is_repeated = ledger.was_repeated(order.number) or not job
    if not job:
        job = _as_owner(ledger.uid, lambda person: _find(name, *order.reached_by(person)))
        if job:
            ledger.submitted(order.number, job)
    return _as_owner(
        ledger.uid, lambda person: act(order, job, is_repeated, *order.reached_by(person))
    )


def _find(name: str, far: Away, account: str) -> str:
    return arrays_of(far).find_held(far, name, account)


def read_tasks(
    order: Order, brought: Brought, ledger: Ledger
) -> "tuple[dict[str, object], tuple[Task, ...]]":
    """Return what the file says of the cluster, and the tasks that are asked for."""
    try:
        header = json.loads(brought.header())
        at_cluster = header["clusters"][order.cluster] | {"name": header["name"]}
        at_cluster["outputs"] = " ".join(map(str, header.get("outputs") or ()))
        is_declared = header.get("is_idempotent") is True or bool(at_cluster["outputs"])
        if order.is_of_copies and not is_declared:
            why = "its tasks are declared neither idempotent nor with outputs"
            raise NotACopy(f"c.{order.array.campaign}: {why}")
        wanted = read_attempts(order.tasks)
        lines = brought.lines({task for task, _ in wanted}, ledger)
        return at_cluster, tuple(Task(n, k, _words(lines[n])) for n, k in wanted)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ParseError) as error:
        raise Refused(f"c.{order.array.campaign}: {error!r}") from error


def submit(
    order: Order,
    header: "dict[str, object]",
    tasks: tuple[Task, ...],
    person: str,
    is_first: bool,
    far: Away,
    account: str,
) -> str:
    """Adopt the array that an earlier call submitted, else submit it, held; return its id.

    The ledger knows of an earlier call: none is looked for at the first one.
    """
    adapter, name = arrays_of(far), str(order.array)
    if not is_first and (found := adapter.find_held(far, name, account)):
        return found
    spec = kept_there(_spec(order, header, tasks, person), order.cluster)
    answer = adapter.submit(far, spec)
    if answer.result == Result.ACCEPTED:
        return answer.remote_id
    os.write(2, f"gridbridge-as-user: {answer.reason}\n".encode("utf-8", "replace"))
    os._exit(STATUS.get(answer.result, REFUSED_THERE))


def act(order: Order, job: str, is_repeated: bool, far: Away, account: str) -> str:
    """Release or delete an array, if the job of that id is it, and what else bears its name."""
    adapter, name = arrays_of(far), str(order.array)
    if is_repeated:
        for other in adapter.find_others(far, name, account, job):
            adapter.delete_array(far, other)
    whose, theirs = adapter.owner_and_account(far, job) if job else ("", "")
    if whose and (whose, theirs) != (account, name):
        raise NotOurs(f"job {job} is {whose}'s, account {theirs!r}: not {name}")
    if whose and order.verb == "release-array":
        adapter.release_array(far, job, f"campaign.{order.array.campaign}")
    elif whose and order.tasks:
        adapter.delete_places(far, job, name, order.tasks)
    elif whose:
        adapter.delete_array(far, job)
    return job


def _spec(
    order: Order, header: "dict[str, object]", tasks: tuple[Task, ...], person: str
) -> JobSpec:
    text = {key: str(header.get(key, "")) for key in HEADER_KEYS}
    amounts = {key: _amount(header, key, most) for key, most in LIMITS.items()}
    walltime_s = amounts["walltime_s"]
    clock = f"{walltime_s // 3600:02}:{walltime_s // 60 % 60:02}:{walltime_s % 60:02}"
    settings = {
        "campaign": str(order.array.campaign),
        "cluster": order.cluster,
        "user": person,
        "slots": str(amounts["slots"]),
        "walltime": clock,
        "walltime_s": str(walltime_s),
        "directory": text["exec_directory"],
        "exec": str(header["exec_file"]),
        "outputs": str(header["outputs"]),
    }
    assert isinstance(order.section, dict)
    request = Request(
        hard=(("h_rt", str(walltime_s)),),
        types=("besteffort",) if header.get("is_besteffort") else (),
        project=text["project"],
        targets=text["queue"],
    )
    return JobSpec(
        transfer=str(order.array),
        request=request,
        script=script(settings, tasks),
        shell=str(order.section.get("shell", "/bin/sh")),
        pe=text["environment"],
        slots=amounts["slots"],
        tasks=len(tasks),
    )


def _as_owner(uid: int, work: "Callable[[str], str]") -> str:
    """Do work in a process of its own as that person, and return the word that it gives."""
    reads, writes = os.pipe()
    if child := os.fork():
        os.close(writes)
        owner.wait_for(child, LIMIT_S)
        with os.fdopen(reads) as told:
            return told.read()
    try:
        os.write(writes, work(_become(uid)).encode())
        os._exit(0)
    except (GridbridgeError, OSError) as error:
        owner.leave(error)
    finally:
        os._exit(owner.FAILED)


def _require_places(text: str) -> None:
    try:
        read_places(text)
    except ParseError as error:
        raise Refused(str(error)) from error


def _become(uid: int) -> str:
    """Become that person; a directory of accounts may be away for a while."""
    try:
        return owner.become(uid)
    except NoAccount as error:
        raise NotNow(str(error)) from error


def _words(line: bytes) -> tuple[str, ...]:
    """Split a line of parameters as sh would, but nothing in it is run."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        return tuple(shlex.split(text))
    except ValueError:  # a quotation mark that stands alone
        return tuple(text.split())


def _amount(header: "dict[str, object]", key: str, most: int) -> int:
    value = header.get(key)
    if not isinstance(value, int) or not 0 < value <= most:
        raise Refused(f"{key} = {value!r}: 1 to {most}")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
