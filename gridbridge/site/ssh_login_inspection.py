"""Tests the requirements of jobs by ssh: users' keys, rsync, and safe stage folders."""

import os
import pwd
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.errors import CommandFailed, GridbridgeError, UnsafeRemoteFolder
from gridbridge.model.cluster import ClusterSection
from gridbridge.model.key_settings import RemoteAccountNames
from gridbridge.model.policy import Policy
from gridbridge.model.site.transfer_host_facts import SshKeyLoginFacts, StageDirFacts
from gridbridge.model.transfer_route import BARE, parse_ssh_login_address
from gridbridge.shell import local_host_facts, remote_stage_folder, ssh

AT_ONCE = 4  # sshd drops the eleventh connection that has not logged in (MaxStartups)
LIMIT_S = 20.0
RSYNC = "rsync"
NO_ACCOUNT = "no such account here"


def inspect_ssh_keys(policy: Policy) -> tuple[SshKeyLoginFacts, ...]:
    """Test each user's ssh login to each cluster by ssh; non-root callers test their own."""
    logins = [
        (name, cluster.ssh, cluster.users.account_of(person), person)
        for name, cluster in _by_ssh(policy)
        for person in _people(policy, cluster.users)
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(threads.map(lambda words: _facts(*words), logins))


def find_ssh_hosts_without_rsync(policy: Policy) -> dict[str, str]:
    """Return for each cluster by ssh the host that lacks rsync; empty if all hosts have rsync."""
    missing_here = "" if shutil.which(RSYNC, path=BARE["PATH"]) else local_host_facts.this_host_name()
    return {name: missing_here or _missing(policy, name) for name, _ in _by_ssh(policy)}


def inspect_ssh_stage_dirs(policy: Policy, of: str = "") -> dict[str, StageDirFacts]:
    """Return facts about each absolute stage_dir, of all clusters by ssh or of one cluster."""
    folders = {name: cluster.stage_dir for name, cluster in _by_ssh(policy) if of in ("", name)}
    pairs = ((name, _stage(policy, name, folder)) for name, folder in folders.items())
    return {name: facts for name, facts in pairs if facts}


def _stage(policy: Policy, cluster: str, stage_dir: str) -> StageDirFacts | None:
    login = configured_cluster_address(policy, cluster).login
    assert login
    if not stage_dir.startswith("/"):
        return None
    try:
        remote_stage_folder.require_safe_stage_dir(login, stage_dir, LIMIT_S)
    except UnsafeRemoteFolder as error:
        return StageDirFacts(place=stage_dir, host=login.host, wrong=error.wrong, mend=error.mend)
    except GridbridgeError:
        return None  # another finding reports the error
    return StageDirFacts(place=stage_dir, host=login.host)


def _missing(policy: Policy, cluster: str) -> str:
    login = configured_cluster_address(policy, cluster).login
    assert login
    try:
        ssh.run_over_ssh(login, (RSYNC, "--version"), {}, LIMIT_S)
    except CommandFailed as error:
        return login.host if error.status == ssh.NOT_FOUND else ""  # other findings report others
    except GridbridgeError:
        return ""
    return ""


def _by_ssh(policy: Policy) -> list[tuple[str, ClusterSection]]:
    """Return the clusters that are reached by ssh, with or without a queue."""
    return [(name, cluster) for name, cluster in policy.clusters.items() if cluster.ssh]


def _people(policy: Policy, named: RemoteAccountNames) -> Iterator[str]:
    """Yield the users whose keys can be tested; all other commands use the service's key.

    If a cluster lists users, only listed users have an account at the cluster.
    """
    people = [person for person in named if person != policy.site.service_account]
    if os.geteuid() == 0:
        yield from people
    elif (caller := pwd.getpwuid(os.geteuid()).pw_name) in people or not people:
        yield caller


def _facts(cluster: str, address: str, account: str, person: str) -> SshKeyLoginFacts:
    trouble = NO_ACCOUNT if not local_host_facts.uid_of_account(person) else _trouble(address, account, person)
    return SshKeyLoginFacts(cluster=cluster, person=person, account=account, trouble=trouble)


def _trouble(address: str, account: str, person: str) -> str:
    """Log in with OpenSSH's client, as job starters do; return why this failed."""
    try:
        ssh.run_over_ssh(
            parse_ssh_login_address(address, account, person), ("true",), {}, LIMIT_S, carrier=ssh.OpenSshClient()
        )
    except GridbridgeError as error:
        return str(error)
    return ""
