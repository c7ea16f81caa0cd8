"""What gridbridge check reports, from results that are cached during one inspection."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import CommandFailed, HostNotReached, SshLoginRefused
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    CheckSubject,
    FindingSeverity,
    TransferSetupSituation,
)
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import local_host_facts, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, run_program
from gridbridge.site import site_inspection
from gridbridge.site.cli import check_command as service
from gridbridge.site.cli.check_command import _check_report_of_findings
from gridbridge.site.transfer_queue_setup import HomeTransferQueueSettings
from tests.shell.test_ssh import far
from tests.site.test_queue_setup import ordered as brokerage_policy


def test_check_prints_no_control_characters() -> None:
    """Words of a ProxyCommand reach the table through the standard error of ssh."""
    words = "\x1b]0;mine\x07\x1b[2Jall is well\nok"
    (item,) = _check_report_of_findings((CheckFinding.warning_finding("key", words, hint=words),), None).items

    assert (item.found.isprintable(), item.hint.isprintable()) == (True, True)
    assert "all is well" in item.found


def test_a_fifo_in_place_of_a_published_file_is_one_finding(tmp_path: Path) -> None:
    """Otherwise a stolen service account could suppress all findings."""
    os.mkfifo(tmp_path / "transfers.json")

    (finding,) = service._check_published_transfers(brokerage_policy("cost"), str(tmp_path))

    assert (finding.item, finding.state) == ("published", FindingSeverity.BROKEN)
    assert finding.found == f"{tmp_path}/transfers.json: not a regular file with one hard link"


def test_check_of_a_refused_configuration_reports_the_refusal_and_the_account_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other findings follow from the configuration in force, which the refused file does not describe."""
    path = tmp_path / "gridbridge.toml"
    path.write_text(
        '[site]\ncluster = "a"\n[cluster.a]\nqmaster_port = 1\nexecd_port = 2\n'
        "[cluster.b]\nqmaster_port = 3\nexecd_port = 4\n"
        '[queue.transfer-b]\ncluster = "b"\nslots = 2\npending_limit = 4\n'
    )
    why = 'FILE: [queue.transfer-b] cluster = "b": jobs of this queue are at "c"'
    known = ServiceConfigurationFacts(is_same=False, refused=(why,))
    poller = PollerProcessFacts(is_running=True, age_s=1.0, configuration=known)
    monkeypatch.setattr(service, "inspect_poller", lambda *_: poller)

    report = service.check_site(Clock(), str(path))

    told, account = report.items
    assert (report.worst, told.state, told.commands) == (FindingSeverity.BROKEN, FindingSeverity.BROKEN, ())
    assert why in told.found
    assert account.name == "account gridbridge"


def test_check_works_for_a_site_without_a_local_cluster() -> None:
    policy = configuration_file.parse_configuration("FILE", b'[site]\ncluster = "hub"\n')

    items = [finding.item for finding in service.collect_check_findings(policy, None, Clock())]

    assert any(item.startswith("program ") or item.startswith("account ") for item in items), items


@pytest.mark.parametrize(
    ("uid", "error", "state"),
    [
        (1234, SshLoginRefused, FindingSeverity.WARNING),
        (1234, HostNotReached, FindingSeverity.BROKEN),
        (0, SshLoginRefused, FindingSeverity.BROKEN),
    ],
    ids=["a person without an account", "silent", "root, as the service"],
)
def test_a_queue_to_a_cluster_that_refuses_this_users_login_is_only_a_warning(
    uid: int, error: type[CommandFailed], state: FindingSeverity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    seen: Future[TransferSetupSituation] = Future()
    seen.set_exception(error(("ssh",), 255, stderr=b"no"))

    (found,) = service._check_transfer_queue("transfer-delta", seen, None)
    assert (found.item, found.state) == ("queue transfer-delta", state)
    assert (found.found == "not visible to this user") is (state is FindingSeverity.WARNING)


def test_check_of_a_fresh_site_is_one_line_with_the_command_that_configures_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{tmp_path}/gridbridge.toml"
    for module in (configuration_file, service):
        monkeypatch.setattr(module, "CONFIG", path)

    (item,) = service.check_site(Clock(), path).items
    with pytest.raises(SystemExit) as ended:
        service.check.callback(is_json=False, is_all=False, is_quiet=False, path=path)

    assert "run this on the transfer host, where the service is" in item.found
    assert (item.commands, item.subject) == (("gridbridge init",), CheckSubject.CONFIGURATION)
    line = f"broken: {path} is missing: on the transfer host run `gridbridge init`\n"
    assert (ended.value.code, capsys.readouterr().out) == (2, line)


def test_check_queries_the_local_cluster_once_for_all_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gridbridge.toml"
    queues = (f'[queue.q{n}]\ncluster = "b"\nslots = 2\npending_limit = 4\n' for n in range(9))
    path.write_text(
        f'[site]\ncluster = "a"\n[cluster.a]\nqmaster_port = 1\nexecd_port = 2\n'
        f"[cluster.b]\nqmaster_port = 3\nexecd_port = 4\n{''.join(queues)}"
    )
    asked: list[str] = []

    def see_home(_: Policy, of_host: str) -> HomeTransferQueueSettings:
        asked.append(of_host)
        raise CommandFailed(("qconf",), 1, b"", b"silent")

    monkeypatch.setattr(service, "read_home_queue_setup", see_home)

    found = [*service.collect_check_findings(configuration_file.load_configuration(str(path)), "", Clock())]

    assert asked == [local_host_facts.this_host_name()]
    told = {each.item for each in found if "qconf: silent" in each.found}
    assert told == {f"queue q{n}" for n in range(9)}


CLIENT = """#!/bin/sh
echo "${{0##*/}} $*" >>{folder}/asked.$SGE_CELL
case "${{0##*/}} $*" in
"qconf -sc") echo "remote remote BOOL == YES NO FALSE 0";;
"qconf -sq "*) printf '%s\\n' '{queue}' 'hostlist master' 'slots 1';;
"qconf -spl") echo mpi;;
"qconf -sel"|"qconf -so"|"qconf -sm"|"qconf -ss"|"qconf -sh") echo "no such list defined";;
qstat*) echo '<job_info><queue_info></queue_info><job_info></job_info></job_info>';;
*) echo "load_sensor none";;
esac
"""


def site(folder: Path, more: str = "", queue: str = "qname all.q") -> Policy:
    cells = ""
    for name, port in (("a", 1), ("b", 3)):
        common = folder / name / "common"
        common.mkdir(parents=True)
        (common / "act_qmaster").write_text("master\n")
        cells += f"[cluster.{name}]\nqmaster_port = {port}\nexecd_port = {port + 1}\n"
        cells += f'root = "{folder}"\ncell = "{name}"\nbinaries = "{folder}"\n'
    for program in ("qconf", "qstat", "qping"):
        (folder / program).write_text(CLIENT.format(folder=folder, queue=queue))
        (folder / program).chmod(0o755)
    path = folder / "gridbridge.toml"
    first = '[queue.q]\ncluster = "b"\nslots = 2\npending_limit = 4\n'
    path.write_text(f'[site]\ncluster = "a"\n{cells}{first}{more}')
    return configuration_file.load_configuration(str(path))


def test_check_sends_no_query_twice_to_a_cell(tmp_path: Path) -> None:
    tuple(service.collect_check_findings(site(tmp_path), "", Clock()))

    for name in ("a", "b"):
        questions = (tmp_path / f"asked.{name}").read_text().splitlines()
        assert "qconf -sc" in questions
        assert {one for one in questions if questions.count(one) > 1} == set()


@pytest.mark.parametrize("item", ["version", "order of transfer queues", "storage pile: names", "room in {folder}"])
def test_check_has_an_item_for_each_subject(tmp_path: Path, item: str) -> None:
    queues = f"qname q' 'hostlist master' 'tmpdir {tmp_path}' 'seq_no 1' '' 'qname r' 'seq_no 2"
    more = '[queue.r]\ncluster = "b"\nslots = 2\npending_limit = 4\n'
    area = f'[storage.pile]\ncluster = "a"\npath = "{tmp_path}"\n'

    found = service.collect_check_findings(site(tmp_path, more + area, queues), "", Clock())

    assert item.format(folder=tmp_path) in {finding.item for finding in found}


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
