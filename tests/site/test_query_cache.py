"""Program results are cached during one inspection: each query runs once, even from several threads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import ssh
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, run_program
from gridbridge.site import site_inspection
from tests.shell.test_ssh import far

ENV = {"PATH": "/usr/bin:/bin"}


def asked(folder: Path, *words: str, stdin: bytes = b"", **env: str) -> bytes:
    script = f'echo >>{folder}/runs; echo "$@"; cat'
    return run_program(("/bin/sh", "-c", script, "sh", *words), ENV | env, 10, stdin).stdout


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text())


def test_concurrent_equal_queries_run_one_program(tmp_path: Path) -> None:
    with site_inspection.cache_program_results(), ThreadPoolExecutor(4) as threads:
        told = {*threads.map(lambda _: asked(tmp_path, "-sc"), range(8))}

    assert (told, runs(tmp_path)) == ({b"-sc\n"}, 1)


def test_a_different_query_cell_or_input_is_not_cached(tmp_path: Path) -> None:
    with site_inspection.cache_program_results():
        asked(tmp_path, "-sc")
        asked(tmp_path, "-sq")
        asked(tmp_path, "-sc", SGE_CELL="beta")
        asked(tmp_path, "-sc", stdin=b"x")
        asked(tmp_path, "-sc", stdin=b"x")

    assert runs(tmp_path) == 5


def test_a_program_that_timed_out_at_a_cell_is_not_run_there_again(tmp_path: Path) -> None:
    """Other programs and other cells are queried; a query without a cell runs each time."""

    def hung(*words: str, program: str = "/bin/sh", **env: str) -> None:
        argv = (program, "-c", f"echo >>{tmp_path}/runs; exec sleep 9", "sh", *words)
        with pytest.raises(CommandFailed) as failed:
            run_program(argv, ENV | env, 0.3)
        assert failed.value.status is None

    counts = []
    with site_inspection.cache_program_results():
        hung("-sc", SGE_CELL="beta")
        for ask in (
            lambda: hung("-sq", SGE_CELL="beta"),
            lambda: hung("-sq", SGE_CELL="beta", TZ="UTC"),
            lambda: hung("-sq", SGE_CELL="beta", program="/bin/bash"),
            lambda: hung("-sc", SGE_CELL="gamma"),
            lambda: hung("-sc"),
            lambda: hung("-sq"),
        ):
            ask()
            counts.append(runs(tmp_path))

    assert counts == [1, 1, 2, 3, 4, 5]


def test_the_cache_ends_with_the_inspection(tmp_path: Path) -> None:
    with site_inspection.cache_program_results():
        asked(tmp_path, "-sc")
    asked(tmp_path, "-sc")

    assert runs(tmp_path) == 2


def test_a_program_that_cannot_start_fails_for_every_caller() -> None:
    with site_inspection.cache_program_results():
        for _ in range(2):
            with pytest.raises(CommandFailed, match="nowhere"):
                run_program(("/nowhere",), ENV, 10)


class LocalShell(ssh.OpenSshClient):
    def __init__(self) -> None:
        self.requests = 0

    def run_ssh_request(
        self, login: SshLogin, _token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        self.requests += 1
        return far("/bin/sh", request), False


def test_equal_queries_by_ssh_run_once_per_host_and_account() -> None:
    carrier = LocalShell()

    def told(login: SshLogin) -> bytes:
        return ssh.run_over_ssh(login, ("echo", "-sc"), ENV, 10, carrier=carrier).stdout

    with site_inspection.cache_program_results():
        printed = {told(SshLogin(host=host, user=user)) for host in ("b", "b", "c") for user in ("x", "y")}

    assert (printed, carrier.requests) == ({b"-sc\n"}, 4)
