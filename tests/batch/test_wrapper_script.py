"""Tests of the wrapper of remote jobs, which really runs here in a folder."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridbridge.batch import remote_job_script_writer
from gridbridge.batch.remote_job_script_writer import (
    BODY,
    RemoteJobScriptValues,
    ShellStartMode,
    write_remote_job_script,
)
from gridbridge.decisions.wrapper_end_interpretation import why_job_not_started, wrapper_exit_status
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause, TransferMessage
from tests.messages import decode_in_place

TEXT = st.binary(max_size=60).filter(lambda data: 0 not in data).map(os.fsdecode)
NO_PATH = {"start": ShellStartMode.BINARY_NO_SHELL, "environment": (("PATH", "/x"),)}
SHOW = b'printf "%s|" "$@"; printf "%s\\n" "$0"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    tmpdir: Path
    spool: Path
    out: Path
    err: Path

    def run(self, *under: str, path: str = "/usr/bin:/bin", **values: object) -> int:
        defaults: dict[str, object] = {
            "transfer": "gb.alpha.12.0.1",
            "spool": str(self.spool),
            "name": "12",
            "start": ShellStartMode.POSIX,
            "shell": "/bin/sh",
            "login": False,
            "arguments": (),
            "environment": (),
            "stdout": str(self.out),
            "stderr": str(self.err),
        }
        script = write_remote_job_script(RemoteJobScriptValues(**(defaults | values)))  # type: ignore[arg-type]
        wrapper = self.tmpdir.parent / "wrapper"
        wrapper.write_bytes(script)
        env = {
            "PATH": path,
            "TMPDIR": str(self.tmpdir),
            "JOB_ID": "77",
            "JOB_NAME": "away",
            "SGE_CELL": "beta",
            "HOSTNAME": "beta-n1",
            "LINES_HERE": "one\ntwo",
            "PWD": os.getcwd(),
        }
        default = ["/usr/bin/env", "--default-signal"]  # the caller of the tests may ignore SIGINT
        argv = [*default, *(under or ("/bin/sh",)), str(wrapper)]
        return subprocess.run(argv, env=env, check=False, timeout=20).returncode

    def told(self) -> TransferMessage:
        (message,) = self.spool.iterdir()
        return decode_in_place(message.read_bytes())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def make_site(folder: Path) -> Site:
    for name in ("tmpdir", "spool"):
        (folder / name).mkdir()
    return Site(tmpdir=folder / "tmpdir", spool=folder / "spool", out=folder / "out", err=folder / "err")


@given(argument=TEXT, value=TEXT, script=st.binary(max_size=60).filter(lambda data: 0 not in data))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arguments_variables_and_script_arrive_unchanged(
    argument: str, value: str, script: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = make_site(tmp_path_factory.mktemp("site"))
    look = b'printf %s "$1"; printf "|%s|" "$VALUE"; cat "$0"; exit\n'
    site.run(arguments=(argument,), environment=(("VALUE", value),), script=look + script)

    expected = os.fsencode(argument) + b"|" + os.fsencode(value) + b"|" + look + script
    assert site.out.read_bytes() == expected


def test_the_wrapper_starts_four_programs(site: Site, tmp_path: Path) -> None:
    """Each program costs a transfer 1 ms."""
    few = tmp_path / "few"
    few.mkdir()
    for name in ("chmod", "env", "install", "mkdir"):
        (few / name).symlink_to(f"/usr/bin/{name}")
    status = site.run("/bin/dash", path=str(few), script=b'echo "$LINES_HERE"; exit 4\n')

    assert (status, site.out.read_text()) == (4, "one\ntwo\n")
    assert site.told().exit_status == "4"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_job_has_execds_and_the_users_environment_only(site: Site, shell: str) -> None:
    own = (("MINE", "a\nb"), ("PATH", "/usr/bin:/bin:/x"), ("BASH_FUNC_f%%", "() { :; }"))
    site.run(shell, start=ShellStartMode.BINARY_NO_SHELL, arguments=("/usr/bin/env", "-0"), environment=own)

    seen = dict(pair.split("=", 1) for pair in site.out.read_text().split("\0") if pair)
    assert seen == {
        "PATH": f"{site.tmpdir}:/usr/bin:/bin:/x",
        "TMPDIR": str(site.tmpdir),
        "JOB_ID": "77",
        "JOB_NAME": "away",
        "SGE_CELL": "beta",
        "HOSTNAME": "beta-n1",
        "LINES_HERE": "one\ntwo",
        "PWD": os.getcwd(),
        "MINE": "a\nb",
        "BASH_FUNC_f%%": "() { :; }",
        "GRIDBRIDGE_REMOTE_CELL": "beta",
        "GRIDBRIDGE_REMOTE_JOB_ID": "77",
        "GRIDBRIDGE_REMOTE_JOB_NAME": "away",
    }


@pytest.mark.parametrize(
    ("values", "printed"),
    [
        ({"script": SHOW, "arguments": ("a b", "", "*")}, "a b||*|{script}\n"),
        ({"script": b"#!/bin/sh\n" + SHOW, "start": ShellStartMode.UNIX, "arguments": ("x",)}, "x|{script}\n"),
        ({"script": SHOW, "start": ShellStartMode.STDIN, "arguments": ("a b",)}, "a b|/bin/sh\n"),
        ({"start": ShellStartMode.BINARY, "arguments": ("echo", "a  b", "", "$0", ";", "echo", "x")}, "a b  sh\nx\n"),
        ({"start": ShellStartMode.BINARY, "login": True, "arguments": ("echo $0",)}, "-sh\n"),
        ({"start": ShellStartMode.BINARY_NO_SHELL, "arguments": ("/bin/echo", "$0", "*")}, "$0 *\n"),
    ],
    ids=["posix", "unix", "stdin", "binary", "binary-login", "no-shell"],
)
def test_a_job_starts_as_by_grid_engines_shepherd(site: Site, values: dict[str, object], printed: str) -> None:
    assert site.run(**values) == 0

    script = f"{site.tmpdir}/.gridbridge/12"
    assert site.out.read_text() == printed.replace("{script}", script)


@pytest.mark.parametrize(
    ("status", "remote"),
    [(0, 0), (7, 7), (99, 199), (100, 200), (127, 127), (137, 137), (199, -63), (200, -64), (255, 255)],
)
def test_an_exit_status_is_reported_and_never_requeues_the_remote_job(site: Site, status: int, remote: int) -> None:
    ended = site.run(script=b"exit %d\n" % status)

    told = site.told()
    assert (ended, told.outcome, told.exit_status) == (remote, "exit", str(status))
    assert (told.transfer, told.remote_id, told.host) == ("gb.alpha.12.0.1", "77", "beta-n1")
    assert (told.at, int(told.wallclock_s) <= 2) == ("", True)


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
def test_every_exit_status_can_be_derived_from_the_wrappers_end(tmp_path: Path, shell: str) -> None:
    """If the message is lost, the accounting shows this end; 99 and 100 must not occur."""
    (tmp_path / ".gridbridge").mkdir()
    statuses = range(256) if shell == "/bin/dash" else TELLING
    ends = {status: end_of_body(tmp_path, shell, status) for status in statuses}

    assert not {99, 100} & {end.exit_status for end in ends.values()}
    told = {status: wrapper_exit_status(end) for status, end in ends.items()}
    assert told == {status: None if status in BY_SIGNAL else status for status in ends}
    assert {status: ends[status].signal for status in BY_SIGNAL} == BY_SIGNAL


TELLING = (0, 98, 99, 100, 130, 137, 141, 191, 192, 199, 200, 255)
BY_SIGNAL = {130: 2, 141: 13}  # a shell prints no message for these signals, so the statuses are ambiguous
STUBS = f"""gb_spool= gb_needs= gb_soh= gb_name=1
gb_stdout=/dev/null gb_stderr=/dev/null gb_stdin=/dev/null
chmod() {{ :; }}
gb_write_script() {{ :; }}
gb_job() ( exit "$STATUS" )
. "{BODY}"
"""


def end_of_body(tmpdir: Path, shell: str, status: int) -> JobEnd:
    """Run only the static wrapper, without a job; return the end that a shepherd sees."""
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmpdir), "STATUS": str(status)}
    code = subprocess.run([shell, "-c", STUBS], env=env, check=False, timeout=20).returncode
    return JobEnd(exit_status=code) if code >= 0 else JobEnd(signal=-code)


@pytest.mark.parametrize("status", [199, 200])
def test_an_ignored_signal_is_replaced_by_exit_status_1(site: Site, status: int) -> None:
    ignoring = ("/usr/bin/env", "--ignore-signal=RTMAX", "--ignore-signal=RTMAX-1", "/bin/sh")

    assert site.run(*ignoring, script=b"exit %d\n" % status) == 1


@pytest.mark.parametrize("signal", [1, 2, 6, 9, 10, 11, 12, 13, 15, 24])
def test_a_signal_is_reported_and_ends_the_wrapper(site: Site, signal: int) -> None:
    ended = site.run(script=b"ulimit -c 0; kill -%d $$; sleep 1\n" % signal)

    assert (ended, site.told().outcome, site.told().signal) == (-signal, "signal", str(signal))


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
def test_files_planted_in_the_wrappers_folder_are_neither_read_nor_run(site: Site, shell: str) -> None:
    site.tmpdir.chmod(0o777)
    planted = site.tmpdir / ".gridbridge"
    planted.mkdir(0o777)
    (planted / "date").write_text("#!/bin/sh\n")
    os.mkfifo(planted / "killed")
    ended = site.run(
        shell, own=remote_job_script_writer.home_job_id_shell_lines(12, "1"), script=b'ls "${0%/*}"; exit 3\n'
    )

    written = sorted(["12", "killed", "own", "times", *remote_job_script_writer.COMMANDS])
    assert (ended, sorted(site.out.read_text().split())) == (3, written)
    assert (site.tmpdir.stat().st_mode & 0o777, planted.stat().st_mode & 0o777) == (0o755, 0o700)


def test_a_link_in_place_of_the_job_folder_is_not_followed(site: Site, tmp_path: Path) -> None:
    site.tmpdir.rmdir()
    (tmp_path / "elsewhere").mkdir()
    site.tmpdir.symlink_to(tmp_path / "elsewhere")

    assert site.run(script=b"true\n") == -58
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_name_of_the_wrappers_message_is_unpredictable(site: Site) -> None:
    names = []
    for _ in range(2):
        site.run(script=b"true\n")
        (message,) = site.spool.iterdir()
        names.append(message.name)
        message.unlink()
    script = (site.tmpdir.parent / "wrapper").read_text()

    assert names[0] != names[1]
    assert not [name for name in names if name.removeprefix("w.") in script]


@pytest.mark.parametrize(
    ("values", "reason", "reason_by_signal"),
    [
        ({"stdout": "/no/such/out"}, "append to standard output", "append to standard output"),
        ({"stderr": "/no/such/err"}, "append to standard error", "append to standard error"),
        ({"stdin": "/no/such/in"}, "read standard input", "read standard input"),
        ({"shell": "/no/shell"}, "find /no/shell", "find its shell or program"),
        ({**NO_PATH, "arguments": ("gone",)}, "find gone", "find its shell or program"),
        ({**NO_PATH, "arguments": ("env",)}, "find env", "find its shell or program"),
    ],
    ids=["stdout", "stderr", "stdin", "shell", "program", "program-not-in-path"],
)
def test_a_job_that_cannot_start_reports_its_reason(
    site: Site, values: dict[str, object], reason: str, reason_by_signal: str
) -> None:
    """Without a spool the wrapper reports the reason by a signal."""
    assert site.run(**({"script": b"echo ran\n"} | values)) == 200
    assert (site.told().outcome, site.told().reason) == ("error", f"can not {reason} on beta-n1")

    ended = site.run(**({"script": b"echo ran\n", "spool": ""} | values))
    why = f"can not {reason_by_signal} on n1"
    assert why_job_not_started(JobEnd(signal=-ended, host="n1")) == (TransferFailureCause.JOB, why)


def test_a_host_without_room_ends_the_wrapper_by_signal_58(site: Site) -> None:
    """An empty script on a full disk would exit with 0."""
    full = site.run("prlimit", "--fsize=0", "/bin/sh", script=b"exit 3\n")
    shutil.rmtree(site.tmpdir)
    site.tmpdir.touch()

    assert (full, site.run(script=b"exit 3\n")) == (-58, -58)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
@pytest.mark.parametrize(
    ("work", "ended", "told"),
    [(b"kill -9 $$", -9, ("signal", "", "9")), (b"exit 137", 137, ("exit", "137", ""))],
    ids=["killed", "high"],
)
def test_a_job_that_fills_its_folder_reports_its_end_and_usage(
    site: Site, shell: str, work: bytes, ended: int, told: tuple[str, str, str]
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", site.tmpdir], check=True)
    try:
        fill = b"cat /dev/zero 2>/dev/null >$TMPDIR/filler\n"
        found = site.run(shell, script=fill + work + b"\n")
    finally:
        subprocess.run(["umount", "--lazy", site.tmpdir], check=True)

    end = site.told()
    assert (found, (end.outcome, end.exit_status, end.signal)) == (ended, told)
    assert end.user_s
    assert end.system_s


def test_a_signal_replaces_a_message_that_cannot_be_written(site: Site) -> None:
    site.spool.rmdir()
    site.spool.touch()

    ended = site.run(script=b"echo ran\n", stdout="/no/such/out")

    told = why_job_not_started(JobEnd(signal=-ended, host="n1"))
    assert told == (TransferFailureCause.JOB, "can not append to standard output on n1")


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    ("work", "ended", "told"),
    [
        (b"rm -rf $TMPDIR; exit 7", 7, ("exit", "7", "")),
        (b"chmod 0 $TMPDIR; exit 99", 199, ("exit", "99", "")),
        (b"rm -rf $TMPDIR; kill -9 $$", -9, ("signal", "", "9")),
        (b"rm -rf $TMPDIR; exit 137", 137, ("exit", "137", "")),
    ],
    ids=["removed", "closed", "removed-and-killed", "removed-and-high"],
)
def test_a_job_that_removes_its_folder_reports_its_end(
    site: Site, shell: str, work: bytes, ended: int, told: tuple[str, str, str]
) -> None:
    status = site.run(shell, script=work + b"\n")

    message = site.told()
    assert (status, (message.outcome, message.exit_status, message.signal)) == (ended, told)
    assert message.user_s
    site.tmpdir.mkdir(exist_ok=True)
    site.tmpdir.chmod(0o755)


def test_a_login_shells_profile_does_not_change_the_jobs_environment(site: Site) -> None:
    home = site.tmpdir.parent / "home"
    home.mkdir()
    (home / ".profile").write_text("export OF_THE_PROFILE=1 PATH=/x:/usr/bin:/bin TMPDIR=/x\n")
    start = f'HOME={home} exec -a -sh /bin/sh "$0"'
    site.run("bash", "-c", start, start=ShellStartMode.BINARY_NO_SHELL, arguments=("/usr/bin/env",))

    seen = dict(line.split("=", 1) for line in site.out.read_text().splitlines() if "=" in line)
    assert ("OF_THE_PROFILE" in seen, seen["TMPDIR"]) == (False, str(site.tmpdir))


def test_output_is_appended_and_merged_in_order(site: Site) -> None:
    site.out.write_text("before\n")
    site.run(script=b"echo 1; echo 2 >&2; echo 3\n", stderr=str(site.out))

    assert site.out.read_text() == "before\n1\n2\n3\n"


def test_without_spool_no_message_is_written(site: Site) -> None:
    assert site.run(script=b"exit 3\n", spool="") == 3

    assert list(site.spool.iterdir()) == []


def test_the_wrapper_is_shorter_than_60_lines() -> None:
    """Administrators can read the whole wrapper."""
    assert len(Path(BODY).read_text().splitlines()) < 60
