"""Collects facts about this host, both qmasters and logins by ssh for `gridbridge check`.

Results of programs are cached, so programs that change state must not be run through the cache.
"""

import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Lock

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.site import account_and_file_findings
from gridbridge.decisions.site.account_and_file_findings import OTHERS_WRITE
from gridbridge.errors import CommandFailed, GridbridgeError, UnsafeRemoteFolder
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, HOME, LOCK, PUBLISHED, PYTHON, ROOTS, SPOOL, SUDOERS
from gridbridge.model.job_and_queue_states import QueueInstanceState
from gridbridge.model.site import site_check_facts
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer_route import BARE, parse_ssh_login_address, remote_cluster_access_of_person
from gridbridge.program.service_disk_space import free_space_of_campaign_filesystem
from gridbridge.shell import local_host_facts, program_lock_file, remote_stage_folder, safe_files, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram, replace_program_runs_by, run_program
from gridbridge.shell.program_startup import setpriv_command_prefix
from gridbridge.site.transfer_queue_request import home_queue_setup_adapter
from gridbridge.state import published_file_formats, published_json

HOT = "gridbridge.transfer.starter.starter, gridbridge.transfer.starter.control_methods"
IMPORT_S = 20.0
POLLERS = ("gridbridge.transfer.poller.program", "gridbridge-poller")
UNNAMED = {"TZ", *BARE}  # names of environment variables that do not select a cell
Question = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]  # argv and environment of a query


def inspect_local_host(policy: Policy) -> site_check_facts.TransferHostFacts:
    account = policy.site.service_account
    owned = (
        *account_and_file_findings.FOLDERS,
        SUDOERS,
        *filter(None, (account_and_file_findings.sqlite_state_file_path(policy.site),)),
    )
    with ThreadPoolExecutor(1) as threads:
        import_trouble = threads.submit(_starter_import_error, account)
        facts_by_path = {path: local_host_facts.read_owner_mode_and_kind(path) for path in owned}
        facts_by_path |= {  # symlinks are followed only for programs and gridbridge.toml
            path: local_host_facts.read_owner_mode_and_kind(path, follow=True)
            for path in (*account_and_file_findings.PROGRAMS, CONFIG)
        }
        hidden = {path for path in owned if local_host_facts.is_path_access_denied(path)}
        facts = site_check_facts.TransferHostFacts(
            name=local_host_facts.this_host_name(),
            service_uid=local_host_facts.uid_of_account(account),
            is_root=os.geteuid() == 0,
            paths={path: facts for path, facts in facts_by_path.items() if facts},
            trees={folder: tree for folder in ROOTS if (tree := _non_root_writable_paths(folder))},
            hidden=frozenset(hidden | ({SUDOERS} if local_host_facts.is_file_unreadable(SUDOERS) else set())),
            closed_to_others={
                path: folder
                for path in account_and_file_findings.PROGRAMS
                if (folder := local_host_facts.first_parent_closed_to_others(path))
            },
            sudoers=local_host_facts.read_text_or_empty(SUDOERS),
            room=free_space_of_state_folders(),
        )
        return replace(facts, import_trouble=import_trouble.result())


def free_space_of_state_folders(campaigns: str = CAMPAIGNS) -> dict[str, site_check_facts.FolderFreeSpace]:
    """Return the free space of the spool, the published folder and the campaigns' folder."""
    by_folder = {
        folder: local_host_facts.free_bytes_and_files_of_folder(folder) for folder in (SPOOL, PUBLISHED)
    } | free_space_of_campaign_filesystem(campaigns)
    return by_folder | {SPOOL: replace(by_folder[SPOOL], folders=local_host_facts.count_subfolders_by_owner(SPOOL))}


def is_writable_by_others(folder: str) -> bool:
    """Say whether a folder exists in which accounts other than root can write."""
    facts = local_host_facts.read_owner_mode_and_kind(folder, follow=True)
    return facts is not None and (facts.owner != 0 or bool(facts.mode & OTHERS_WRITE))


def inspect_poller(sha256: str | None, now_s: float) -> site_check_facts.PollerProcessFacts:
    """Return facts about the poller; with `sha256` compare the poller's configuration with the file on disk."""
    home_facts = local_host_facts.read_owner_mode_and_kind(HOME)
    uid = home_facts.owner if home_facts else 0
    pids = (local_host_facts.find_process_by_command_line(words, uid) for words in POLLERS) if uid else ()
    age_s, is_fresh, values = None, False, frozenset[str]()
    with suppress(OSError, GridbridgeError):
        path = published_file_formats.load_values_path()
        taken_at_s, stale_s, load_values = published_file_formats.parse_load_values_file(path)
        age_s, values = now_s - taken_at_s, frozenset(load_values)
        is_fresh = -1 <= age_s <= stale_s
    return site_check_facts.PollerProcessFacts(
        is_running=program_lock_file.is_lock_file_held(LOCK),
        pid=next(filter(None, pids), 0),
        age_s=age_s,
        last_words=local_host_facts.last_log_line(f"{HOME}/poller.log"),
        values=values,
        configuration=None if sha256 is None or not is_fresh else _service_configuration_facts(sha256, now_s),
    )


def query_cell_version_and_clock(cluster: str, policy: Policy, clock: Clock) -> site_check_facts.ClusterFacts:
    remote = configured_cluster_access(policy, cluster)
    return batch_adapter_of_cluster(remote).query_cluster_facts(remote, clock.now_s())


def embedded_home_queue_slots(policy: Policy) -> dict[str, int]:
    home = configured_cluster_access(policy, policy.site.cluster)
    list_queues = batch_adapter_of_cluster(home).list_transfer_queues
    return list_queues(home) if list_queues else {}


def transfer_queue_states(policy: Policy) -> dict[str, QueueInstanceState]:
    home = configured_cluster_access(policy, policy.site.cluster)
    instances = home_queue_setup_adapter(home).query_queue_instances(home, policy.site.cluster)
    ours = (instance for instance in instances if instance.name.partition("@")[0] in policy.queues)
    return {instance.name: instance.state for instance in ours}


def _non_root_writable_paths(folder: str) -> site_check_facts.NonRootWritablePaths | None:
    try:
        above = dict(safe_files.write_risks_along_path(folder))
        within = [doubts for _, doubts in safe_files.write_risks_below_folder(folder)]
    except OSError:
        return None
    wrong = (*above, *(doubt for doubts in within for doubt, _ in doubts))
    return site_check_facts.NonRootWritablePaths(files=len(within), wrong=wrong, above=tuple(above.values()))


def _starter_import_error(account: str) -> str:
    """Import the starter's modules as the service account; return the error message, empty without an error."""
    if not local_host_facts.uid_of_account(account):
        return ""
    argv = (*setpriv_command_prefix(account), PYTHON, "-I", "-c", f"import {HOT}")
    try:
        run_program(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, IMPORT_S).require_success()
    except CommandFailed as error:
        return error.program_and_failure
    return ""


def _service_configuration_facts(sha256: str, now_s: float) -> site_check_facts.ServiceConfigurationFacts | None:
    service = None
    with suppress(OSError, GridbridgeError):
        service = published_json.read_published_service_status(PUBLISHED)
    configuration = service.configuration if service else None
    if configuration is None:
        return None
    is_judged = configuration.refused_sha256 in ("", sha256)
    return site_check_facts.ServiceConfigurationFacts(
        is_same=configuration.sha256 == sha256,
        for_s=now_s - configuration.since.timestamp(),
        refused=configuration.refused if is_judged else (),
    )


@contextmanager
def cache_program_results() -> Iterator[None]:
    """Run each program once within the context; later calls get the cached result or failure."""
    replace_program_runs_by(ProgramResultCache().cached_or_new_result)
    try:
        yield
    finally:
        replace_program_runs_by(None)


class ProgramResultCache:
    """Runs each command line once, and gives the result to all threads that ask for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: dict[Question, Future[CompletedProgram]] = {}
        self._silences: dict[Question, CommandFailed] = {}  # errors of cells that did not answer, by program and cell

    def cached_or_new_result(
        self, argv: tuple[str, ...], env: dict[str, str], ask: Callable[[], CompletedProgram]
    ) -> CompletedProgram:
        """Return a program's cached result, or run the program, but not at a cell where a query has timed out."""
        question = (argv, tuple(sorted(env.items())))
        cell = tuple(variable for variable in question[1] if variable[0] not in UNNAMED)
        at_cell = (argv[:1], cell)
        with self._lock:
            is_new = question not in self._answers
            answer = self._answers.setdefault(question, Future())
        if is_new:
            try:
                answer.set_result(self._run_cell_query(at_cell, ask))
            except BaseException as error:  # threads that wait for this result get the error
                answer.set_exception(error)
        return answer.result()

    def _run_cell_query(self, at_cell: Question, ask: Callable[[], CompletedProgram]) -> CompletedProgram:
        if silence := self._silences.get(at_cell):
            raise silence
        try:
            return ask()
        except CommandFailed as error:
            if at_cell[1] and error.status is None:
                self._silences[at_cell] = error
            raise


AT_ONCE = 4  # few logins at a time, because sshd drops an eleventh connection without login (MaxStartups)
LIMIT_S = 20.0
RSYNC = "rsync"


def try_user_logins_at_clusters(policy: Policy) -> tuple[site_check_facts.SshKeyLoginFacts, ...]:
    """Test each user's login to each cluster by ssh, and root's logins for users to each cluster by api.

    If not called by root, test only the caller's logins by ssh.
    """
    logins = [
        (_test_ssh_key_login if cluster.ssh else _test_root_login, name, cluster, person)
        for name, cluster in policy.clusters.items()
        if cluster.ssh or (cluster.api and os.geteuid() == 0)
        for person in _users_with_testable_ssh_keys(policy, cluster.users)
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(threads.map(lambda login: login[0](*login[1:]), logins))


def find_ssh_hosts_without_rsync(policy: Policy) -> dict[str, str]:
    """Return for each cluster reached by ssh the host that lacks rsync, or '' if no host lacks rsync."""
    missing_here = "" if shutil.which(RSYNC, path=BARE["PATH"]) else local_host_facts.this_host_name()
    return {name: missing_here or _ssh_host_without_rsync(policy, name) for name, _ in _clusters_reached_by_ssh(policy)}


def inspect_ssh_stage_dirs(policy: Policy, of: str = "") -> dict[str, site_check_facts.StageDirFacts]:
    """Return facts about each absolute stage_dir of clusters reached by ssh, or only of cluster `of`."""
    sections = ((name, cluster) for name, cluster in _clusters_reached_by_ssh(policy) if of in ("", name))
    return {name: facts for name, cluster in sections if (facts := _stage_dir_facts(policy, name, cluster.stage_dir))}


def _stage_dir_facts(policy: Policy, cluster: str, stage_dir: str) -> site_check_facts.StageDirFacts | None:
    login = configured_cluster_access(policy, cluster).login
    assert login
    if not stage_dir.startswith("/"):
        return None
    try:
        remote_stage_folder.require_safe_stage_dir(login, stage_dir, LIMIT_S)
    except UnsafeRemoteFolder as error:
        return site_check_facts.StageDirFacts(place=stage_dir, host=login.host, wrong=error.wrong, mend=error.mend)
    except GridbridgeError:
        return None  # another finding of the check reports the error
    return site_check_facts.StageDirFacts(place=stage_dir, host=login.host)


def _ssh_host_without_rsync(policy: Policy, cluster: str) -> str:
    login = configured_cluster_access(policy, cluster).login
    assert login
    try:
        ssh.run_over_ssh(login, (RSYNC, "--version"), {}, LIMIT_S)
    except CommandFailed as error:
        return login.host if error.status == ssh.NOT_FOUND else ""  # the check of logins reports a failed login
    except GridbridgeError:
        return ""
    return ""


def _clusters_reached_by_ssh(policy: Policy) -> list[tuple[str, ClusterSection]]:
    return [(name, cluster) for name, cluster in policy.clusters.items() if cluster.ssh]


def _users_with_testable_ssh_keys(policy: Policy, account_by_user: AccountByUser) -> Iterator[str]:
    """Yield users whose keys can be tested; if a cluster lists users, only these users have an account there."""
    people = [person for person in account_by_user if person != policy.site.service_account]
    if os.geteuid() == 0:
        yield from people
    elif (caller := pwd.getpwuid(os.geteuid()).pw_name) in people or not people:
        yield caller


def _test_root_login(cluster: str, section: ClusterSection, person: str) -> site_check_facts.SshKeyLoginFacts:
    settings = {"kind": section.kind, "api": section.api, "api_login": section.api_login, "users": dict(section.users)}
    where, trouble = remote_cluster_access_of_person(settings, cluster, person), ""
    if require := batch_adapter_of_cluster(where).require_root_login:
        try:
            require(where)
        except GridbridgeError as error:
            trouble = str(error)
    return site_check_facts.SshKeyLoginFacts(
        cluster=cluster, person=person, account=where.account_of_user(person), trouble=trouble, means="login"
    )


def _test_ssh_key_login(cluster: str, section: ClusterSection, person: str) -> site_check_facts.SshKeyLoginFacts:
    account, trouble = section.users.remote_account_of_user(person), ""
    if not local_host_facts.uid_of_account(person):
        trouble = "no such account here"
    else:
        try:
            login = parse_ssh_login_address(section.ssh, account, person)
            ssh.run_over_ssh(login, ("true",), {}, LIMIT_S, carrier=ssh.OpenSshClient())
        except GridbridgeError as error:
            trouble = str(error)
    return site_check_facts.SshKeyLoginFacts(cluster=cluster, person=person, account=account, trouble=trouble)
