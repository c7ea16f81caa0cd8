"""Tests of the stand-ins for Grid Engine's commands that translate the home job id."""

from pathlib import Path

import pytest

from gridbridge.batch import remote_job_script_writer
from gridbridge.batch.remote_job_script_writer import ShellStartMode
from tests.batch.test_wrapper_script import Site, make_site
from tests.builders.programs import write_program

REAL = '#!/bin/sh\nprintf "%s" "${0##*/}"; printf "|%s" "$@"; echo\n'
HOME, TASK = 12, "3"  # the remote job id is 77


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a host whose Grid Engine commands print their arguments."""
    (tmp_path / "bin").mkdir()
    for name in remote_job_script_writer.COMMANDS:
        write_program(tmp_path / "bin" / name, REAL)
    return make_site(tmp_path)


def told(site: Site, line: str, task: str = TASK, **values: object) -> list[str]:
    path = f"{site.tmpdir.parent}/bin:/usr/bin:/bin"
    environment = (("JOB_ID", str(HOME)), ("PATH", path), ("SGE_TASK_ID", task))
    job = {"script": f"{line}\n".encode(), "own": remote_job_script_writer.home_job_id_shell_lines(HOME, task)} | values
    assert site.run(environment=environment, **job) == 0, site.out.read_text()
    return site.out.read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("qsub -hold_jid $JOB_ID next.sh 12 -hold_jid 12", "qsub|-hold_jid|77|next.sh|12|-hold_jid|12"),
        ("qsub -p 12 -pe mpi 12 -hold_jid 9,$JOB_ID -N 12 a.sh", "qsub|-p|12|-pe|mpi|12|-hold_jid|9,77|-N|12|a.sh"),
        ("qsub -binding env linear:12 -hold_jid 12 -t 12", "qsub|-binding|env|linear:12|-hold_jid|77|-t|12"),
        ("qsub -V -cwd -hold_jid_ad 12", "qsub|-V|-cwd|-hold_jid_ad|77"),
        ("qdel $JOB_ID", "qdel|77"),
        ("qdel -f 11 $JOB_ID,120,12.3,12.4", "qdel|-f|11|77,120,77,77.4"),
        ("qdel $JOB_ID -t $SGE_TASK_ID", "qdel|77"),
        ("qdel -t 4 12", "qdel|-t|4|77"),
        ("qdel -u 12", "qdel|-u|12"),
        ("qalter -p 12 -h u -hold_jid 12 12 13", "qalter|-p|12|-h|u|-hold_jid|77|77|13"),
        ("qmod -sj $JOB_ID; qmod -msg 12 -usj 12", "qmod|-sj|77\nqmod|-msg|12|-usj|77"),
        ("qhold -h u 12 && qrls 12", "qhold|-h|u|77\nqrls|77"),
        ("qstat -u 12 -j $JOB_ID", "qstat|-u|12|-j|77"),
        ("qstat 12", "qstat|12"),
        ("qsub -N \"a  b\" -hold_jid 12 -v \"X='$HOME'\" '*'", "qsub|-N|a  b|-hold_jid|77|-v|X=''|*"),
        ("JOB_ID=90 qdel 12", "qdel|12"),
        ("env -u JOB_ID qdel 12", "qdel|12"),
    ],
)
def test_commands_get_the_remote_job_id_for_the_home_job_id(site: Site, line: str, given: str) -> None:
    """Option values and script arguments stay unchanged."""
    assert told(site, line) == given.splitlines()


def test_a_job_that_is_no_array_task_or_has_no_stand_ins_keeps_its_words(site: Site) -> None:
    assert told(site, "qdel 12.1 12", task="undefined") == ["qdel|77.1|77"]
    site.out.unlink()
    assert told(site, "qdel $JOB_ID; ls $TMPDIR/.gridbridge", own="") == ["qdel|12", "12", "killed", "times"]


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
@pytest.mark.parametrize("start", [ShellStartMode.POSIX, ShellStartMode.BINARY])
def test_a_profile_that_replaces_path_does_not_hide_the_stand_ins(site: Site, shell: str, start: str) -> None:
    """Debian's /etc/profile replaces PATH."""
    home = site.tmpdir.parent / "home"
    home.mkdir()
    path = f"{site.tmpdir.parent}/bin:/usr/bin:/bin"
    (home / ".profile").write_text(f"PATH={path}\nof_the_profile() {{ echo there; }}\n")
    script = b'qdel $JOB_ID; of_the_profile; echo "${0##*/} $1"; exit 3\n'
    values = {"script": script, "arguments": ("a  b",)}
    if start == ShellStartMode.BINARY:
        values = {"arguments": ("qdel $JOB_ID; of_the_profile; echo", "12 a; exit 3")}
    environment = (("HOME", str(home)), ("JOB_ID", str(HOME)))
    status = site.run(
        shell=shell,
        login=True,
        start=start,
        environment=environment,
        own=remote_job_script_writer.home_job_id_shell_lines(HOME, TASK),
        **values,
    )

    last = "12 a" if start == ShellStartMode.BINARY else "12 a  b"
    assert (status, site.out.read_text()) == (3, f"qdel|77\nthere\n{last}\n")


def test_only_a_script_that_runs_commands_is_sourced() -> None:
    assert remote_job_script_writer.shell_args_restoring_path(b"echo $0\n") == []
    assert remote_job_script_writer.shell_args_restoring_path(b"(return 0 2>/dev/null) && exit\nqdel $JOB_ID\n") == []
    assert remote_job_script_writer.shell_args_restoring_path(b"qdel $JOB_ID\n") != []


def test_a_job_without_room_for_the_stand_ins_is_not_started(site: Site) -> None:
    lines = remote_job_script_writer.home_job_id_shell_lines(HOME, TASK).replace("$gb_private/own", "/dev/full")

    assert site.run(script=b"echo ran\n", own=lines) == 200
    assert not site.out.exists()


def test_the_stand_in_script_is_shorter_than_60_lines() -> None:
    assert len(Path(remote_job_script_writer.HOME_ID_BODY).read_text().splitlines()) < 60
