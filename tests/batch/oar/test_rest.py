"""Tests of OAR's REST interface against a server of this process: each failure has one outcome."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.oar import (
    job_submission_and_control,
    oar_rest_database,
    oar_rest_frontend,
    oar_rest_requests,
    status,
)
from gridbridge.batch.oar.oar_rest_frontend import OarRestFrontend
from gridbridge.batch.oar.oar_rest_requests import BYTES, OarRestLogin
from gridbridge.errors import CommandFailed, GridbridgeError, HostNotReached, ParseError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.jobs_and_accounting import ArrayEndQuery
from gridbridge.model.transfer_route import OarServerAccessSettings

PASSWORD = "not-for-logs"
ACCOUNT = "al_gamma"
DRIPS = 300
HTML = ("text/html", b"<html>busy</html>")
SUBMITTED = json.dumps({"id": 7, "cmd_output": "OAR_JOB_ID=7\nOAR_JOB_ID=8\nOAR_ARRAY_ID=7\n"}).encode()
SPEC = JobSpec(transfer="gc.alpha.1.1", request=JobRequest(), cwd="/", script=b"exit 0\n", tasks=2)
Answer = tuple[int, str, bytes]
HELD: dict[str, object] = {
    **{"job_id": 7, "array_id": 7, "array_index": 1, "job_name": SPEC.transfer, "job_user": ACCOUNT, "state": "Hold"},
    **{"queue_name": "default", "message": "", "submission_time": 1, "start_time": 0, "stop_time": 0},
    **{"exit_code": None, "resubmit_job_id": 0, "reservation": "None", "event_id": None},
}


def in_json(code: int, **content: object) -> Answer:
    return code, "application/json", json.dumps(content).encode()


def failed(program: str, exit_status: int, output: str) -> Answer:
    """Answer as the interface does after a failed program of OAR."""
    return in_json(400, message=f"{program} command exited with status {exit_status}: {output}\nCmd:\n{program}")


class Interface:
    """A server that answers by the longest key of `answers` that begins a request, and records the requests."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Answer] = {
            "GET /oarapi/whoami": in_json(200, authenticated_user=ACCOUNT),
            "POST /oarapi/jobs/array/7/deletions/new": in_json(202, cmd_output=""),
            "POST /oarapi/jobs": (201, "application/json", SUBMITTED),
            "": in_json(200, items=[], api_timestamp=0),
        }
        self.requests: list[str] = []
        self.declared_bytes = 0  # wrong Content-Length; 0: the right value
        self.is_dripping = False  # whether an answer goes on by a byte now and then
        self.dripped = 0
        self.pause = ""  # request after which the server says no more
        self.stored: dict[str, bytes] = {}
        self.idents: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port
        self.login = folder / "login.toml"
        self.login.write_text(f'user = "gridbridge"\npassword = "{PASSWORD}"\n')
        self.login.chmod(0o600)
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def access(self, scheme: str = "http", timeout_s: float = 5) -> OarServerAccessSettings:
        api = f"{scheme}://127.0.0.1:{self.port}/oarapi"
        return OarServerAccessSettings(api=api, api_login=str(self.login), api_account=ACCOUNT, timeout_s=timeout_s)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(interface) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                request = f"{self.command} {self.path}"
                interface.requests.append(request)
                interface.idents.add(self.headers["X-REMOTE-IDENT"])
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if "/media/force/" in request:
                    interface.stored[self.path.rpartition("/")[2]] = body
                code, kind, content = interface.answers[max(filter(request.startswith, interface.answers), key=len)]
                if interface.pause and request.startswith(interface.pause):
                    self.connection.close()
                    return
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Location", "/oarapi/elsewhere")
                self.send_header("Content-Length", str(interface.declared_bytes or len(content)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(content)
                    while interface.is_dripping and interface.dripped < DRIPS:
                        self.wfile.write(b" ")
                        interface.dripped += 1
                        time.sleep(0.1)

            do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def interface(tmp_path: Path) -> Iterator[Interface]:
    server = Interface(tmp_path)
    yield server
    server.close()


def test_an_array_is_submitted_as_the_accounts_and_its_file_is_stored_whole(interface: Interface) -> None:
    result = job_submission_and_control.submit_held_job(interface.access(), SPEC)
    size, _, content = interface.stored["array.7"].partition(b"\n")

    assert (result.result, result.remote_id, interface.idents) == (JobSubmissionOutcome.ACCEPTED, "7", {ACCOUNT})
    assert size == b"#%d" % len(content)
    assert content.endswith(SPEC.script)


OUTCOMES: dict[str, tuple[dict[str, Answer], str]] = {
    "other account": ({"GET /oarapi/whoami": in_json(200, authenticated_user="bob")}, JobSubmissionOutcome.LATER),
    "login rejected": ({"GET /oarapi/whoami": (401, *HTML)}, JobSubmissionOutcome.LATER),
    "account rejected": ({"POST /oarapi/jobs": (403, *HTML)}, JobSubmissionOutcome.LATER),
    "no folder": ({"POST /oarapi/media": in_json(500, message="disk full")}, JobSubmissionOutcome.LATER),
    "refused": ({"POST /oarapi/jobs": failed("Oarsub", 8, "no such property")}, JobSubmissionOutcome.REFUSED),
    "by a rule": ({"POST /oarapi/jobs": failed("Oarsub", 254, "[ADMISSION RULE] no")}, JobSubmissionOutcome.REFUSED),
    "server down": ({"POST /oarapi/jobs": failed("Oarsub", 9, "killed")}, JobSubmissionOutcome.UNSURE),
    "file not stored": ({"POST /oarapi/media/force/~/.gridbridge/array": (500, *HTML)}, JobSubmissionOutcome.LATER),
    "neither stored nor deleted": (
        {
            "POST /oarapi/media/force/~/.gridbridge/array": (500, *HTML),
            "POST /oarapi/jobs/array/7/deletions/new": (500, *HTML),
        },
        JobSubmissionOutcome.UNSURE,
    ),
    "impossible status": ({"POST /oarapi/jobs": failed("Oarsub", 10**20, "no")}, JobSubmissionOutcome.UNSURE),
    "redirect": ({"POST /oarapi/jobs": (302, *HTML)}, JobSubmissionOutcome.UNSURE),
    "error page": ({"POST /oarapi/jobs": (500, *HTML)}, JobSubmissionOutcome.UNSURE),
    "page of a proxy": ({"POST /oarapi/jobs": (200, *HTML)}, JobSubmissionOutcome.UNSURE),
    "cut JSON": ({"POST /oarapi/jobs": (201, "application/json", SUBMITTED[:9])}, JobSubmissionOutcome.UNSURE),
}


@pytest.mark.parametrize(("answers", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_each_failure_of_a_submission_has_one_outcome(
    interface: Interface, answers: dict[str, Answer], expected: str
) -> None:
    """LATER: surely no job; REFUSED: never; UNSURE: the job is looked up before anything is sent again."""
    interface.answers |= answers
    result = job_submission_and_control.submit_held_job(interface.access(), SPEC)
    repeated = [request for request in interface.requests if request == "POST /oarapi/jobs"]

    assert (result.result, len(repeated) <= 1) == (expected, True), result.reason
    assert "elsewhere" not in "".join(interface.requests)
    assert PASSWORD not in result.reason
    assert "\n" not in result.reason


def test_a_submission_without_an_answer_is_unsure(interface: Interface) -> None:
    interface.pause = "POST /oarapi/jobs"

    assert job_submission_and_control.submit_held_job(interface.access(), SPEC).result == JobSubmissionOutcome.UNSURE


def test_an_unreachable_or_unverified_server_gets_nothing(interface: Interface) -> None:
    no_tls = job_submission_and_control.submit_held_job(interface.access("https"), SPEC)
    access = interface.access()
    interface.close()

    assert (no_tls.result, interface.requests) == (JobSubmissionOutcome.LATER, [])
    assert job_submission_and_control.submit_held_job(access, SPEC).result == JobSubmissionOutcome.LATER


def test_too_slow_too_long_and_cut_answers_are_errors(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends a byte now and then is cut off at the time limit, too."""
    server = interface.access(timeout_s=0.5)
    interface.declared_bytes = 10**9
    for is_dripping in (False, True):
        interface.is_dripping = is_dripping
        with pytest.raises(CommandFailed, match="no complete answer"):
            job_submission_and_control.query_job_state(server, "7")
    assert 0 < interface.dripped < DRIPS

    interface.declared_bytes, interface.is_dripping = 0, False
    monkeypatch.setattr(oar_rest_database, "LIST_BYTES", 10)
    with pytest.raises(CommandFailed, match="larger than"):
        job_submission_and_control.query_job_state(interface.access(), "7")


@pytest.mark.parametrize(
    "answer",
    [
        in_json(500, message="SQL error"),
        in_json(200, items=[]),
        in_json(200, items=[{"job_id": 1}] * 4),
        in_json(200, items=[{"other": 1}]),
        (200, *HTML),
        (200, "application/json", b"[" * 100_000),
        (500, "application/json", b'{"message": "\\ud800 \xff"}'),
        in_json(200, items=[HELD | {"start_time": "9" * 400}]),
    ],
    ids=["failed", "empty", "a page is missing", "no such column", "no JSON", "deep JSON", "no UTF-8", "huge number"],
)
def test_an_incomplete_answer_never_means_that_no_job_exists(
    interface: Interface, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(oar_rest_database, "MOST_ROWS", 4)
    interface.answers = {"GET /oarapi/select_all": answer}
    for query in (job_submission_and_control.query_job_state, job_submission_and_control.query_owner_and_account):
        with pytest.raises((CommandFailed, ParseError)):
            query(interface.access(), "7")
    with pytest.raises((CommandFailed, ParseError)):
        status.query_cluster_snapshot(interface.access(), "gamma", (7,))


@pytest.mark.parametrize("status", [127, 10**20])
def test_an_impossible_wait_status_is_an_error(interface: Interface, status: int) -> None:
    interface.answers["POST /oarapi/jobs/array/7/deletions/new"] = failed("Oardel", status, "no")

    with pytest.raises(CommandFailed):
        job_submission_and_control.delete_array(interface.access(), "7")


def test_each_query_fits_the_longest_address_that_apache_takes(interface: Interface) -> None:
    interface.answers = {
        "": in_json(200, items=[HELD | {"state": "Running", "resource_id": 1, "network_address": "n1"}])
    }
    many = {9_000_000 + 2 * number: SPEC.transfer for number in range(250)}
    status.query_array_ends(
        interface.access(), [ArrayEndQuery(job_id=job, account=name, places=(99_999,)) for job, name in many.items()]
    )
    status.query_begun_indices(interface.access(), many)
    conditions = [*oar_rest_database._conditions_on_ids("jobs.job_id", many)]

    assert len(interface.requests) > 2 * 250 // oar_rest_database.PORTION
    assert max(len(text) for text in (*interface.requests, *conditions)) < 8190 - len(oar_rest_database.ASSIGNED) * 3


def test_one_constant_row_means_that_no_job_exists(interface: Interface) -> None:
    interface.answers = {"GET /oarapi/select_all": in_json(200, items=[{"job_id": None, "gb_whole": 1}], total=1)}

    assert job_submission_and_control.query_owner_and_account(interface.access(), "7") == ("", "")


@pytest.mark.parametrize(
    ("stored", "found"),
    [((200, BYTES, b"#7\nexit 0\n"), "7"), ((200, BYTES, b"#7\nexit"), ""), (in_json(404, message="Not found"), "")],
    ids=["whole", "cut", "missing"],
)
def test_an_array_whose_answer_was_lost_is_adopted_only_with_its_whole_file(
    interface: Interface, stored: Answer, found: str
) -> None:
    interface.answers |= {
        "GET /oarapi/select_all": in_json(200, items=[HELD], total=1),
        "GET /oarapi/media/~/.gridbridge/array.7": stored,
    }

    assert job_submission_and_control.find_held_job(interface.access(), SPEC.transfer, ACCOUNT) == found
    assert job_submission_and_control.find_duplicate_arrays(interface.access(), SPEC.transfer, ACCOUNT, "8") == ["7"]


@pytest.mark.parametrize("text", ["$(id)", "`id`", 'a"b', "a\\b", "a\nb"])
def test_texts_that_a_shell_would_interpret_are_refused(interface: Interface, text: str) -> None:
    spec = SPEC.with_changes(request=JobRequest(hard=(("host", text),)))

    assert job_submission_and_control.submit_held_job(interface.access(), spec).result == JobSubmissionOutcome.REFUSED
    assert not interface.requests


@pytest.mark.parametrize(
    ("content", "mode", "wrong"),
    [
        (f'user = "a"\npassword = "{PASSWORD}"\n', 0o644, "chmod 640"),
        (f'user = "a"\npassword = "{PASSWORD}"\n', 0o660, "chmod go-w"),
        (f'user = "a"\npassword = {PASSWORD}\n', 0o600, "not TOML"),
        (f'password = "{PASSWORD}"\n', 0o600, "incomplete"),
        (f'user = "a"\npassword = "{PASSWORD}"\nhost = "x"\n', 0o600, "unknown keys"),
    ],
    ids=["readable by all", "writable by a group", "no TOML", "no user", "unknown key"],
)
def test_a_bad_login_file_is_refused_without_its_password(tmp_path: Path, content: str, mode: int, wrong: str) -> None:
    path = tmp_path / "login.toml"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(GridbridgeError, match=wrong) as caught:
        OarRestLogin(str(path))

    assert PASSWORD not in f"{caught.value} {caught.value!r}"


def test_a_login_that_root_read_needs_no_file_any_more(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oar_rest_requests, "_root_logins", {str(interface.login): OarRestLogin(str(interface.login))})
    interface.login.unlink()

    assert job_submission_and_control.submit_held_job(interface.access(), SPEC).result == JobSubmissionOutcome.ACCEPTED
    with pytest.raises(GridbridgeError, match="No such file"):
        OarRestFrontend(OarServerAccessSettings(api="http://h", api_login="/nonesuch", timeout_s=1)).query_version()


@pytest.mark.parametrize(("script", "expected"), [("exit 3;", 3), ("", -57)], ids=["stored", "missing"])
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_job_runs_its_stored_file_or_ends_by_a_signal(tmp_path: Path, shell: str, script: str, expected: int) -> None:
    (tmp_path / ".gridbridge").mkdir()
    if script:
        (tmp_path / ".gridbridge" / "array.7").write_text(script)
    command = json.loads(oar_rest_frontend._oarsub_request(SPEC))["command"]
    variables = os.environ | {"HOME": str(tmp_path), "OAR_ARRAY_ID": "7"}

    assert not any(sign in command for sign in oar_rest_frontend.UNSAFE)
    assert subprocess.run([shell, "-c", command], env=variables, check=False).returncode == expected


def test_a_rejected_login_names_its_file(interface: Interface) -> None:
    interface.answers = {"": (401, *HTML)}
    with pytest.raises(HostNotReached, match=r"login\.toml is not admitted as al_gamma: HTTP status 401"):
        job_submission_and_control.query_job_state(interface.access(), "7")
