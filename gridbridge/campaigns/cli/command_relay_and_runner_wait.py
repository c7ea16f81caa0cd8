"""Relays users' commands by ssh from login nodes to the transfer host, and reports late answers.

Hosts that mount spool and published files relay nothing; -h, --help, --published and --version stay local.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from errno import ENOTDIR
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import click

from gridbridge.campaigns.cli import UNANSWERED, UNREACHABLE
from gridbridge.campaigns.store.campaign_client import ANSWER_S, TAKEN_S, NoRunnerForRequest, RunnerAnswerTimeout
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.cli import output_and_errors
from gridbridge.errors import ConfigError, StandardOutputReaderGone, StandardOutputUnwritable
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell import ssh
from gridbridge.shell.safe_files import is_owned_by_current_user

PROGRAMS = "/opt/gridbridge/bin"
HERE = ("-h", "--help", "--published", "--version")
NOT_REACHED = "{}: {} was not reached; nothing is changed there"
LOST = "{}: lost the connection to {}, which may have taken the request; look at gridstat before a repetition"
EITHER = "{}: {} was not reached, or the connection was lost"
HANDED_OVER = b"\n"  # a relayed command has started once it has read this standard input


def transfer_host_to_relay_to(folder: str, path: str) -> str:
    """Return the name of the transfer host; empty if the command runs on this host."""
    if os.path.isdir(folder):
        return ""
    from gridbridge.config import configuration_file  # slow to load, and not needed on the transfer host

    try:
        return configuration_file.load_configuration(path).site.transfer_host
    except ConfigError:
        return ""  # the command reports the missing configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedCommandOutputFiles:
    words: tuple[str, ...]  # arguments of the relayed command
    to: str  # folder on this host to which the files are copied
    says: str = ""  # text that is printed in place of the relayed command's output
    is_chosen: bool = True  # whether the user chose the folder `to`; a default folder must belong to the user


Writes = Callable[[Mapping[str, Any], Sequence[str]], RelayedCommandOutputFiles | None]


def run_here_or_on_transfer_host(
    command: click.Command,
    name: str,
    status_if_unreached: int = output_and_errors.ERROR,
    writes: Writes = lambda *_: None,
    changes: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> None:
    """Run a command on this host or on the transfer host, and exit with the command's status.

    `writes` returns the files to copy to this host. `changes` says whether the command changes any state. After a lost
    connection it is unknown whether the state was changed.
    """
    words, paths = sys.argv[1:], FixedPaths()
    is_here = any(word.partition("=")[0] in HERE for word in words)
    transfer_host = "" if is_here else transfer_host_to_relay_to(paths.published, paths.configuration)
    try:
        options = command.make_context(name, [*words]).params if transfer_host else {}
    except click.exceptions.ClickException:
        transfer_host = ""  # the command runs on the login node, and reports the wrong option
    if not transfer_host:
        output_and_errors.run_command_reporting_errors(command, name)
    files = writes(options, words)
    if files:
        sys.exit(relay_and_fetch_output_files(transfer_host, name, files))
    sys.exit(run_on_transfer_host(transfer_host, name, words, status_if_unreached, changes=changes(options)))


def run_on_transfer_host(
    transfer_host: str,
    name: str,
    words: Sequence[str],
    status_if_unreached: int,
    stdin: bytes | None = None,
    *,
    changes: bool = False,
) -> int:
    """Run a command on the transfer host by ssh, and return its exit status.

    Returns `status_if_unreached` if the host was not reached. Returns UNANSWERED if the connection was lost
    and a command that changes state may have started.
    """
    standard_input = HANDED_OVER if changes and stdin is None else stdin
    status = ssh.run_by_callers_ssh(transfer_host, (f"{PROGRAMS}/{name}", *words), standard_input)
    if status not in (ssh.RELAY_FAILED, ssh.UNREACHED):
        return status
    is_begun = changes and status == ssh.RELAY_FAILED
    message = LOST if is_begun else NOT_REACHED if changes else EITHER
    output_and_errors.print_error(message.format(name, transfer_host))
    return UNANSWERED if is_begun else status_if_unreached


def relay_and_fetch_output_files(transfer_host: str, name: str, files: RelayedCommandOutputFiles) -> int:
    try:
        os.makedirs(files.to, exist_ok=True)
        if not (files.is_chosen or is_owned_by_current_user(files.to)):
            output_and_errors.print_error(
                f"{name}: {files.to}: owned by another user; expected a folder of yours as DIR"
            )
            return output_and_errors.ERROR
        with TemporaryDirectory(prefix=".gridbridge.", dir=files.to) as folder:
            status = ssh.run_remotely_and_fetch_files(transfer_host, (f"{PROGRAMS}/{name}", *files.words), folder)
            if status == ssh.RELAY_FAILED:
                output_and_errors.print_error(EITHER.format(name, transfer_host))
                return output_and_errors.ERROR
            _move_fetched_files(f"{folder}/out", files.to)
            with open(f"{folder}/said", encoding="utf-8", errors="replace") as messages:
                output_and_errors.print_line((files.says if not status else "") or messages.read().removesuffix("\n"))
    except OSError as error:
        output_and_errors.print_error(f"{name}: {files.to}: {error.strerror}")
        return output_and_errors.ERROR
    return status


def _move_fetched_files(source: str, to: str) -> None:
    for folder, _, names in os.walk(source):
        target = os.path.normpath(os.path.join(to, os.path.relpath(folder, source)))
        if folder != source and os.path.islink(target):
            raise NotADirectoryError(ENOTDIR, f"{target} is a link")
        os.makedirs(target, exist_ok=True)
        for name in names:
            os.replace(f"{folder}/{name}", f"{target}/{name}")


SOON_S = 5.0  # the runner, if run with --loop, answers within this time
WAITING = f"waiting for gridbridge-runner, {ANSWER_S:g} s at most (cron starts the runner once a minute)"
TAKEN = f"gridbridge-runner took the request and has not answered; waiting at most {TAKEN_S:g} s more"


@contextmanager
def report_late_runner_answer(
    program: str, after_s: float = SOON_S, taken_s: float = ANSWER_S + SOON_S
) -> Iterator[None]:
    """Print a line if the runner answers late, and a line when the runner must have read the request."""
    timers = [
        Timer(limit_s, output_and_errors.print_error, [f"{program}: {line}"])
        for limit_s, line in ((after_s, WAITING), (taken_s, TAKEN))
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def send_request_and_report_answer(program: str, request: Callable[[], int]) -> int:
    try:
        with report_late_runner_answer(program):
            return request()
    except (RunnerAnswerTimeout, NoRunnerForRequest) as error:
        return report_missing_runner_answer(program, error)


def report_missing_runner_answer(program: str, error: NoRunnerForRequest | RunnerAnswerTimeout) -> int:
    """Print that the runner did not answer; the returned status says if the request may still be executed."""
    output_and_errors.print_error(f"{program}: {error}")
    return UNANSWERED if isinstance(error, RunnerAnswerTimeout) else UNREACHABLE


def stored_campaign_json(number: int, parsed: ParsedJdl) -> str:
    return json.dumps({"id": number, **asdict(parsed.jdl), "nb_jobs": len(parsed.parameters)})


def print_stored_submission(program: str, lines: Sequence[str], summary: str) -> int:
    """Print that a submission is stored, and return the exit status.

    If standard output fails, prints `summary` to standard error and returns UNANSWERED: scripts must not retry.
    """
    try:
        for line in lines:
            output_and_errors.print_line(line)
        output_and_errors.flush_output()
    except StandardOutputReaderGone:
        output_and_errors.print_error(f"{program}: nobody reads standard output; {summary}")
        return UNANSWERED
    except StandardOutputUnwritable as error:
        output_and_errors.print_error(f"{program}: {error}; {summary}")
        return UNANSWERED
    return 0
