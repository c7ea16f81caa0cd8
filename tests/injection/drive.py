"""Kill a program at each write and each client call; check that the next run leads to the right end.

usage: python -m tests.injection.drive SCENARIO [EACH [full]]
EACH is 1 for every kill, 3 for each third. With `full` each writing call finds a full disk instead of a
kill. Prints a line for each wrong end, and the number of kills; exit status 1 for a wrong end.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gridbridge.batch import privileged_helper_calls
from gridbridge.model.fixed_paths import AS_USER, CONFIG, HOME, PUBLISHED, SPOOL
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
    encode_transfer_message,
)
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats, spool
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_daemon import build_transfer_service
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.starter import control_methods, starter
from gridbridge.transfer.starter.local_task import LocalTask
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.injection import killing, sandbox
from tests.injection.killing import ANSWER, check
from tests.injection.sandbox import NAME

STATE = f"sqlite:///{HOME}/state.db"
VERDICT = TransferMessage(transfer=NAME, remote_id="40", outcome=TransferOutcome.EXIT, exit_status="7")
LIMIT_S = 10.0
FULL = "full"
SLEEPING: list[int] = []  # the FIFOs of starters that sleep, open


# What people's processes do.


def step() -> None:
    """Run one step of the starter; the answer goes into the file that the starter's shell reads."""
    _be_the_owner("", "script")
    answer = os.open(ANSWER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(answer, 1)
    starter.main()


def method(name: str) -> Callable[[], None]:
    def act() -> None:
        _be_the_owner(name)
        control_methods.main()

    return act


def _be_the_owner(*arguments: str) -> None:
    os.environ.clear()
    os.environ.update(sandbox.environment())
    sys.argv = ["program", *arguments]
    with suppress(OSError):  # on a full disk, as the program itself
        log = os.open(f"{sandbox.TASK}/.gridbridge/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)


def shell() -> str:
    """Run steps as sge-methods/starter does, until a step answers anything but `again`."""
    for _ in range(8):
        Path(ANSWER).write_text("")
        killing.run(step)
        answer = Path(ANSWER).read_text()
        if answer and not answer.startswith("again"):
            return " ".join(answer.split()[:2])
    return "never an answer"


def ask(desired: str) -> Callable[[], None]:
    """Return a function that submits a job and then requests an action on it."""

    def act() -> None:
        killing.run(step)
        LocalTask(sandbox.environment()).note_intent(desired)

    return act


def end(**values: str) -> Callable[[], None]:
    """Return a function that submits a job and publishes its verdict."""

    def act() -> None:
        killing.run(step)
        path = published_file_formats.transfer_verdict_path(NAME, os.getuid())
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        safe_files.replace_file_atomically(path, encode_transfer_message(VERDICT.with_changes(**values)))

    return act


# What the service does.


def rounds(is_done: Callable[[TransferService], bool], **of_queues: float) -> Callable[[], None]:
    """Return a function that runs a poller until a condition holds.

    `of_queues` changes keys of all queues.
    """

    def act() -> None:
        os.dup2(os.open("/opt/poller.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        clock = Clock()
        configuration = ReloadableConfiguration(clock, CONFIG)
        policy = configuration.policy
        queues = {name: replace(one, **of_queues) for name, one in policy.queues.items()}  # type: ignore[arg-type]
        quick = replace(policy.poller, interval_s=0.1)
        changed = replace(policy, poller=quick, queues=queues)
        configuration.in_force = replace(configuration.in_force, policy=changed)
        service = build_transfer_service(configuration, clock)
        deadline = time.monotonic() + LIMIT_S
        while not is_done(service):
            assert time.monotonic() < deadline, "the poller's work has no end"
            service.run_poller_round()
            time.sleep(0.01)

    return act


def is_over(service: TransferService) -> bool:
    """Say whether no transfer is open and no message is left."""
    return not service.ledger.open and not sandbox.messages()


def has_verdict(service: TransferService) -> bool:
    return os.path.exists(published_file_formats.transfer_verdict_path(NAME, os.getuid()))


def claimed() -> None:
    """Submit a job with a claim, let the job wait at beta, and let its starter sleep."""
    sandbox.claim_by_file()
    killing.run(step)
    (sandbox.CELLS / "beta/jobs/40/state").write_text("qw\n")
    while SLEEPING:
        os.close(SLEEPING.pop())
    for name in {message.wake for message in sandbox.messages()}:
        SLEEPING.append(os.open(f"{SPOOL}/wake/{name}", os.O_RDONLY | os.O_NONBLOCK))


def be_deleted() -> None:
    """Submit a job and delete the local job, which execd has not yet ended."""
    killing.run(step)
    (sandbox.CELLS / "alpha/jobs" / str(sandbox.JOB) / "state").write_text("dr\n")


def die() -> None:
    killing.run(step)
    killing.run(method("epilog"))
    shutil.rmtree(sandbox.CELLS / "alpha/jobs" / str(sandbox.JOB))


def finish() -> None:
    killing.run(step)
    spool.send_spool_message(VERDICT.with_changes(kind=TransferMessageKind.ENDED, at="1767225600"))


def closed_by_starter() -> None:
    end()()
    shell()
    shutil.rmtree(sandbox.CELLS / "beta/jobs/40")


# How it has to end.


def waits(state: str = "r", name: str = "sleep") -> Callable[[], list[str]]:
    """Return a check that a starter waits for exactly one remote job, in that state."""

    def look() -> list[str]:
        answer = shell()
        return [
            *check("the answer", answer, "wait 60"),
            *check("what is at beta", sandbox.jobs("beta"), ["40"]),
            *check("it", sandbox.job("beta", "40"), (name, state)),
            *check("the task here", sandbox.job("alpha", "7"), ("sleep", "ar")),
        ]

    return look


def ends(answer: str, at_home: str = "ar") -> Callable[[], list[str]]:
    """Return a check that the starter ends with this status, and has informed the service."""

    def look() -> list[str]:
        found = shell()
        return [
            *check("the answer", found, answer),
            *check("closed", {m.kind for m in sandbox.messages()} >= {TransferMessageKind.CLOSED}, True),
            *check("the task here", sandbox.job("alpha", "7"), ("sleep", at_home)),
        ]

    return look


def waits_after(name: str, state: str) -> Callable[[], list[str]]:
    """Return a check that a second run of the method takes effect."""

    def look() -> list[str]:
        killing.run(method(name))
        return waits(state)()

    return look


def agrees(desired: str, state: str) -> Callable[[], list[str]]:
    """Return a check that the next step follows the reported state, and informs the service."""

    def look() -> list[str]:
        killing.run(step)
        safe_files.remove_file(published_file_formats.transfer_verdict_path(NAME, os.getuid()))
        told = {m.desired for m in sandbox.messages() if m.kind == TransferMessageKind.INTENT}
        return [*waits(state)(), *check("the service knows", told, {desired})]

    return look


def is_dead(name: str = "") -> Callable[[], list[str]]:
    def look() -> list[str]:
        if name:
            killing.run(method(name))
        answer = shell()
        told = [m.desired for m in sandbox.messages() if m.kind == TransferMessageKind.INTENT]
        return [
            *check("the answer", answer, "signal 9"),
            *check("what is at beta", sandbox.jobs("beta"), []),
            # A killed epilog is not run again: the service finds that the starter is gone.
            *check("the service knows", DesiredLocalJobState.DEAD in told or name == "epilog", True),
        ]

    return look


def is_clean() -> list[str]:
    """Run the poller again, and check that no job or file is left."""
    status = killing.run(rounds(is_over))
    return [
        *check("the poller's end", status, 0),
        *check("open", _open_transfers(), []),
        *check("what is at beta", sandbox.jobs("beta"), []),
        *check("messages", sandbox.messages(), []),
        *check("FIFOs", os.listdir(f"{SPOOL}/wake"), []),
        *check("verdicts", _verdicts(), []),
    ]


def _verdicts() -> list[str]:
    """Return the published verdicts; temporary files of a killed writer do not count."""
    names = [name for _, _, found in os.walk(f"{PUBLISHED}/verdicts") for name in found]
    return [name for name in names if not name.startswith(safe_files.TEMPORARY)]


def is_clean_without_job() -> list[str]:
    """End the remote job; check that a new run of the poller leaves no file."""
    shutil.rmtree(sandbox.CELLS / "beta/jobs/40", ignore_errors=True)
    return is_clean()


def brings_verdict() -> list[str]:
    """Run the poller again; check that the starter ends as the job ended."""
    status = killing.run(rounds(has_verdict))
    return [*check("the poller's end", status, 0), *ends("exit 7")(), *is_clean_without_job()]


def comes_home() -> list[str]:
    """Run the poller again; check that the task comes home, and that no job or claim is left."""
    status = killing.run(rounds(has_verdict, recall_unreachable_s=0.0))
    who = sandbox.claims()
    found = ends("exit 99", "r")()
    return [
        *check("the poller's end", status, 0),
        *check("the claim's owner", who, [claim_and_guard.HOME]),
        *found,
        *is_clean(),
        *check("claims", sandbox.claims(), []),
    ]


def opens() -> list[str]:
    return check("open", _open_transfers(), [])


def _open_transfers() -> list[str]:
    with closing(StateFile.open(STATE)) as database:
        return [one.name for one in TransferRows(database).open_transfers()]


class Scenario(NamedTuple):
    prepare: Callable[[], object]
    act: Callable[[], object]
    look: Callable[[], list[str]]
    since: str = ""  # only what comes from this call on is killed: before that others do the same


def nothing() -> None:
    """Prepare nothing."""


REPORTED = end(outcome=TransferOutcome.AGREE, desired=DesiredLocalJobState.SUSPENDED, at=f"{time.time():.3f}")
SCENARIOS = {
    "submit": Scenario(nothing, step, waits()),
    "follow-suspend": Scenario(ask(DesiredLocalJobState.SUSPENDED), step, waits("hs")),
    "follow-agree": Scenario(REPORTED, step, agrees(DesiredLocalJobState.SUSPENDED, "hs")),
    "follow-dead": Scenario(ask(DesiredLocalJobState.DEAD), step, is_dead()),
    "finish": Scenario(end(), step, ends("exit 7")),
    "finish-requeue": Scenario(end(outcome=TransferOutcome.REQUEUE), step, ends("exit 99", "r")),
    "finish-error": Scenario(end(outcome=TransferOutcome.ERROR, reason="no"), step, ends("exit 100", "r")),
    "suspend": Scenario(step, method("suspend"), waits_after("suspend", "hs")),
    "resume": Scenario(step, method("resume"), waits_after("resume", "r")),
    "terminate": Scenario(be_deleted, method("terminate"), is_dead("terminate")),
    "epilog": Scenario(step, method("epilog"), is_dead("epilog")),
    "poller-dead": Scenario(die, rounds(is_over), is_clean),
    "poller-ended": Scenario(finish, rounds(has_verdict), brings_verdict),
    "poller-closed": Scenario(closed_by_starter, rounds(is_over), is_clean_without_job),
    "poller-claims": Scenario(claimed, rounds(has_verdict, recall_unreachable_s=0.0), comes_home, since="symlink"),
    "state": Scenario(lambda: os.unlink(f"{HOME}/state.db"), lambda: StateFile.open(STATE).close(), opens),
}


def main(name: str, each: int = 1, how: str = "") -> int:
    sandbox.mount()
    privileged_helper_calls.SUDO_AS_USER = ("/opt/sudo", "-n", AS_USER)
    sandbox.reset()
    StateFile.open(STATE).close()
    shutil.copy(f"{HOME}/state.db", sandbox.STEADY)
    scenario = SCENARIOS[name]
    prepare = scenario.prepare if scenario.prepare is not step else lambda: killing.run(step)
    # A step that comes while the client of the one before still works is the lab's to test.
    moments = (killing.BEGINS, killing.ENDS) if "poller" in name else (killing.ENDS,)
    struck = chain(
        killing.kills(prepare, scenario.act, each, scenario.since),
        () if scenario.since else killing.client_kills(partial(killing.strike, prepare, scenario.act), each, moments),
    )
    if how == FULL:
        struck = chain(killing.full_disks(prepare, scenario.act, each))
    return killing.report_wrong_ends("", struck, scenario.look)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:]))
