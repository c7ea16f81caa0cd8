"""Reaches an OAR server by its REST interface, which runs OAR's programs as the account that each request names."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_rest_database import OarRestDatabase, number_in_column, require_rows, split_into_portions
from gridbridge.batch.oar.oar_rest_requests import BYTES, OarRestAnswer
from gridbridge.errors import CommandFailed, GridbridgeError, HostNotReached, ParseError
from gridbridge.model.job_request import JobSpec
from gridbridge.shell.program_runs import CompletedProgram

FOLDER = "/media/~/.gridbridge"  # where far.sh, too, stores the files of jobs
FORCED_FOLDER = "/media/force/~/.gridbridge"  # replaces an existing file
NOT_BEGUN = 75  # exit status for a submission that failed before oarsub ran, as of far.sh
KILLED_BEFORE, MISSING = 6, 404  # exit status of oardel; HTTP status
UNSAFE = '"$`\\'  # characters that the interface's shell would interpret
DAY_S = 86400
EXITED = " command exited with status "
MOST_STATUS_DIGITS = 5


class OarRestFrontend(OarRestDatabase):
    def explain_request_refusal(self, spec: JobSpec) -> str:
        """Return which text of a request can't pass the interface's shell unchanged; empty if there is none."""
        request = spec.request
        texts = (
            oar_command_line_builders.oarsub_property_condition(request),
            request.targets,
            request.project,
            *request.types,
        )
        wrong = [text for text in texts if not text.isprintable() or any(sign in text for sign in UNSAFE)]
        return f"OAR's REST interface passes no {' '.join(UNSAFE)} on: {wrong[0]}" if wrong else ""

    def submit_held_job(self, spec: JobSpec, content: bytes) -> CompletedProgram:
        """Submit a held job, then store its file; without the file the held job is deleted again."""
        try:
            self.require_account()
            self._require_private_folder()
        except HostNotReached:
            raise
        except GridbridgeError as error:
            return CompletedProgram(("oarsub",), NOT_BEGUN, b"", str(error).encode())
        answer = _program_end("oarsub", self._send_rest_request("POST", "/jobs", _oarsub_request(spec)))
        number = answer.stdout.partition(b"OAR_JOB_ID=")[2].partition(b"\n")[0].decode()
        if answer.status or not number.isdecimal():
            return answer
        name = f"{'array' if spec.tasks else 'job'}.{number}"
        try:
            self._store(name, b"#%d\n%b" % (len(content), content))
        except GridbridgeError as error:
            self._delete_array_and_files(number, name)
            return CompletedProgram(("oarsub",), NOT_BEGUN, b"", str(error).encode())
        self._remove_old_scripts()
        return answer

    def require_account(self) -> None:
        """Raise HostNotReached if the interface acts as another account than the access says."""
        table = self._send_rest_request("GET", "/whoami").require_success().json_table()
        if table.get("authenticated_user") != self._server.api_account:
            why = f"{self.host} acts as {table.get('authenticated_user')!r}; expected {self._server.api_account!r}"
            raise HostNotReached(("GET /whoami",), None, b"", why.encode(), host=self.host)

    def _require_private_folder(self) -> None:
        mode = json.dumps({"mode": "700"}).encode()
        path = "/media/chmod/~/.gridbridge"
        if not self._send_rest_request("POST", path, mode).is_success:
            self._store("new.rest", b"")  # makes the folder
            self._send_rest_request("POST", path, mode).require_success()

    def _store(self, name: str, content: bytes) -> None:
        path = f"{FORCED_FOLDER}/{name}"
        self._send_rest_request("POST", path, content, BYTES).require_success()

    def find_whole_scripts(self, names: Iterable[str]) -> Collection[str]:
        return [name for name in names if self._is_whole(name)]

    def _is_whole(self, name: str) -> bool:
        answer = self._send_rest_request("GET", f"{FOLDER}/{name}")
        if answer.status == MISSING:
            return False
        size, _, content = answer.require_success().content.partition(b"\n")
        return size == b"#%d" % len(content)

    def hold_job(self, job: str) -> CompletedProgram:
        return self._act("oarhold", f"/jobs/{int(job)}/holds/new")

    def resume_job(self, job: str) -> CompletedProgram:
        return self._act("oarresume", f"/jobs/{int(job)}/resumptions/new")

    def resume_arrays(self, arrays: Iterable[str]) -> CompletedProgram:
        ends = [self._act("oarresume", f"/jobs/array/{int(array)}/resumptions/new") for array in arrays]
        return _worst_end(ends)

    def signal_job(self, job: str, name: str) -> CompletedProgram:
        return self._act("oardel", f"/jobs/{int(job)}/signals/{oar_command_line_builders.SIGNAL_NUMBERS[name]}")

    def delete_job(self, job: str) -> CompletedProgram:
        return self._delete_with_files(f"/jobs/{int(job)}/deletions/new", f"job.{job}")

    def delete_array(self, array: str) -> CompletedProgram:
        name = f"array.{array}"
        return self._delete_with_files(f"/jobs/array/{int(array)}/deletions/new", name, f"{name}.begun")

    def delete_tasks(self, array: str, indices: Mapping[str, str]) -> CompletedProgram:
        """Delete tasks one by one, because the interface takes no list of jobs."""
        return _worst_end([self._act("oardel", f"/jobs/{int(job)}/deletions/new") for job in indices])

    def _delete_with_files(self, path: str, *names: str) -> CompletedProgram:
        answer = self._act("oardel", path)
        if answer.status in (0, KILLED_BEFORE):
            self._remove_files(names)
        return answer

    def _delete_array_and_files(self, number: str, name: str) -> None:
        """Delete a job or array that was just submitted; raise CommandFailed if it may stay."""
        way = "array/" if name.startswith("array.") else ""
        self._delete_with_files(f"/jobs/{way}{number}/deletions/new", name).require_success()

    def _remove_files(self, names: Iterable[str]) -> None:
        for name in names:  # a started job has removed its file itself
            with suppress(GridbridgeError):
                self._send_rest_request("DELETE", f"{FOLDER}/{name}")

    def _remove_old_scripts(self) -> None:
        """Remove at most PORTION files, older than a day, of ended jobs: nothing else removes what never started."""
        with suppress(GridbridgeError, ValueError, KeyError, TypeError):
            table = self._send_rest_request("GET", "/media/ls/~/.gridbridge").require_success().json_table()
            latest = number_in_column(table, "api_timestamp") - DAY_S
            items = [item for item in require_rows(table["items"]) if number_in_column(item, "mtime") < latest]
            parts = (str(item["name"]).split(".") for item in items)
            old = {int(words[1]): words[0] for words in parts if len(words) == 2 and words[1].isdecimal()}
            for numbers in [*split_into_portions(sorted(old))][:1]:
                living = {int(job.array) for job in self.find_live_tasks([*map(str, numbers)])}
                names = [f"{old[number]}.{number}" for number in numbers if number not in living]
                self._remove_files([*names, *(f"{name}.begun" for name in names if name.startswith("array."))])

    def query_version(self) -> str:
        table = self._send_rest_request("GET", "/version").require_success().json_table()
        return f"OAR {str(table.get('oar_version', '')).partition(' ')[0]}"

    def query_clock_s(self) -> float:
        try:
            return float(
                str(self._send_rest_request("GET", "/version").require_success().json_table()["api_timestamp"])
            )
        except (KeyError, ValueError) as error:
            raise ParseError(f"{self.host}: the answer to /version has no time") from error

    def _act(self, program: str, path: str) -> CompletedProgram:
        return _program_end(program, self._send_rest_request("POST", path, b"{}"))


def _oarsub_request(spec: JobSpec) -> bytes:
    """Return the request for oarsub(1); the command has no character that the interface's shell would interpret."""
    request = spec.request
    words: dict[str, object] = {
        "name": spec.transfer,
        "hold": 1,
        "directory": "/",
        "stdout": "/dev/null",
        "stderr": "/dev/null",
        "resource": oar_command_line_builders.oarsub_resource_option(request, spec.slots),
        "command": _command("array", "OAR_ARRAY_ID") if spec.tasks else _command("job", "OAR_JOB_ID"),
        "property": oar_command_line_builders.oarsub_property_condition(request),
        "queue": request.targets,
        "project": request.project,
        "type": list(request.types),
        "array": str(spec.tasks or ""),
    }
    return json.dumps({key: value for key, value in words.items() if value}).encode()


def _command(kind: str, variable: str) -> str:
    """Return a command for sh and csh that runs a job's stored file, as oar_command_line_builders.TASK_COMMAND does."""
    path = f"join q(), @ENV{{HOME}}, q(/.gridbridge/{kind}.), @ENV{{{variable}}}"
    check = f"grep {{ -r or kill {oar_command_line_builders.UNSTARTED}, getpid }} {path}"
    return f"exec /usr/bin/perl -MPOSIX -e 'exec q(/usr/bin/perl), {check}'"


def _program_end(program: str, answer: OarRestAnswer) -> CompletedProgram:
    """Return how a program of OAR ended that the interface ran; raise CommandFailed if it says nothing of an end."""
    if answer.is_success:
        try:
            output = str(answer.json_table()["cmd_output"])
        except (ParseError, KeyError) as error:
            why = f"{error}: the outcome is unknown".encode()
            raise CommandFailed(answer.request, None, b"", why) from error
        return CompletedProgram((program,), 0, output.encode("utf-8", "replace"), b"")
    who, is_end, rest = answer.message().partition(EXITED)
    number, _, output = rest.partition(": ")
    status = _parse_exit_status(who, number) if is_end else None
    if status is None:
        answer.require_success()
    text = output.rpartition("\nCmd:\n")[0] or output.rpartition(". (Command was: ")[0] or output
    return CompletedProgram((program,), status or 0, b"", text.encode())


def _parse_exit_status(program: str, number: str) -> int | None:
    """Return the exit status of a program of OAR, from its wait status except for oarsub; None for another text."""
    if not number.isdecimal() or len(number) > MOST_STATUS_DIGITS:
        return None
    try:
        return int(number) if program == "Oarsub" else os.waitstatus_to_exitcode(int(number))
    except ValueError:
        return None


def _worst_end(ends: Sequence[CompletedProgram]) -> CompletedProgram:
    """Return the first end of those with the largest exit status, KILLED_BEFORE counting as success."""
    return max(ends, key=lambda end: (end.status not in (0, KILLED_BEFORE), end.status))
