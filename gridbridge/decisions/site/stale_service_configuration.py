"""Findings about services with an older gridbridge.toml or program version."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.transfer_host_facts import PollerProcessFacts

CONFIGURATION_ITEM = "poller: gridbridge.toml"
OLDER_IN_FORCE = "the service has an older gridbridge.toml"
AWAIT_RELOAD_EDIT = SetupEdit(verb=SetupEditVerb.SHELL, value=f"{PYTHON} -I -m gridbridge.site.configuration_wait")
NEW_IN_FORCE = "the new one"


def is_new_configuration_refused(poller: PollerProcessFacts) -> bool:
    """Say whether the running service rejects the valid gridbridge.toml on disk."""
    configuration = poller.configuration
    return configuration is not None and not configuration.is_same and bool(configuration.refused)


def is_config_reload_awaited(poller: PollerProcessFacts) -> bool:
    """Say whether the running service has not yet read the gridbridge.toml on disk."""
    configuration = poller.configuration
    return configuration is not None and not configuration.is_same and not configuration.refused


def stale_configuration_reason(poller: PollerProcessFacts) -> str:
    """Say why the running service does not use gridbridge.toml on disk."""
    wrong = (finding for finding in stale_configuration_findings(poller) if finding.state != FindingSeverity.OK)
    return next((f"{finding.found}; {finding.hint}" for finding in wrong), "")


def stale_configuration_findings(poller: PollerProcessFacts, is_right: bool = True) -> Iterator[CheckFinding]:
    """Report a running service that does not use gridbridge.toml on disk.

    Errors in gridbridge.toml are separate findings.
    """
    configuration = poller.configuration
    if configuration is None:
        return
    if configuration.is_same:
        yield CheckFinding(item=CONFIGURATION_ITEM, state=FindingSeverity.OK, found="in force")
    elif not is_right:
        hint = "the service keeps the older file until the new file is valid"
        yield CheckFinding(
            item=CONFIGURATION_ITEM, state=FindingSeverity.WARNING, found=OLDER_IN_FORCE, right=NEW_IN_FORCE, hint=hint
        )
    elif configuration.refused:
        hint = "the service keeps the older file until these errors are corrected"
        actual = f"{OLDER_IN_FORCE}; it refuses the new one: {'; '.join(configuration.refused)}"
        yield CheckFinding(
            item=CONFIGURATION_ITEM, state=FindingSeverity.BROKEN, found=actual, right=NEW_IN_FORCE, hint=hint
        )
    else:
        yield _late(poller.pid)


def _late(pid: int) -> CheckFinding:
    """Return the finding whose edit makes the service read gridbridge.toml now."""
    edit = SetupEdit(verb=SetupEditVerb.SHELL, value=f"kill -HUP {pid}")
    return CheckFinding(
        item=CONFIGURATION_ITEM,
        state=FindingSeverity.WARNING,
        found=OLDER_IN_FORCE,
        right=NEW_IN_FORCE,
        mend=(edit,) if pid else (),
        hint="the service reads the file within seconds, or by: systemctl reload gridbridge-poller",
    )


VERSION_ITEM = "version"
POLLER = "gridbridge-poller"
BY_SENSOR = "the load sensor starts the poller"
UNKNOWN = "an unknown version"  # the program could not record its version, e.g. on a full disk


@dataclass(frozen=True, slots=True)
class RunningProgramVersion:
    """A running program's version (empty: unknown) and process id (0: unknown)."""

    version: str
    pid: int


def program_version_finding(running: Mapping[str, RunningProgramVersion], installed: str) -> CheckFinding:
    """Report the programs that run another version than the installed version."""
    outdated = {program: process for program, process in running.items() if not _is_same(process.version, installed)}
    if not outdated:
        return CheckFinding(item=VERSION_ITEM, state=FindingSeverity.OK, found=installed)
    differing = (f"{program} runs {process.version or UNKNOWN}" for program, process in outdated.items())
    return CheckFinding(
        item=VERSION_ITEM,
        state=FindingSeverity.BROKEN,
        found=", ".join(differing),
        right=installed,
        hint=f"systemctl restart {' '.join(outdated)}; {_without_systemd(outdated)}",
    )


def _is_same(running: str, installed: str) -> bool:
    """Compare two versions; commits count only if both versions name a commit."""
    (version, _, commit), (right, _, commit_there) = (running.partition("+"), installed.partition("+"))
    return version == right and (commit == commit_there or not (commit and commit_there))


def _without_systemd(outdated: Mapping[str, RunningProgramVersion]) -> str:
    """Return the hint how to stop outdated programs without systemd."""
    pids = " ".join(str(process.pid) for process in outdated.values() if process.pid)
    ended = f"`kill {pids}`" if pids else "end each"
    by_hand = "start each as before" if outdated.keys() - {POLLER} else ""
    by_sensor = BY_SENSOR if POLLER in outdated else ""
    return f"without systemd {', '.join(filter(None, (ended, by_hand, by_sensor)))}"


NEEDS_NEW_SERVICE = "only a new service takes that: end the poller when nothing is away"

AwayJob: TypeAlias = tuple[str, str, str]  # owner, remote cluster, transfer queue


def find_unreloadable_changes(
    before: Policy, after: Policy, path: str = CONFIG, jobs_away: Iterable[AwayJob] = ()
) -> tuple[str, ...]:
    """Return the configuration changes that a running service can't apply.

    Home cluster, service account, state file and embedded kind are fixed while the service runs.
    The remote account identifies a remote job's owner. The local job's methods find the remote job
    by its queue. So accounts and queues of remote jobs don't change before the jobs have ended.
    """
    stays = frozenset(jobs_away)
    fixed, accounts = _fixed(before, after, path), _accounts(before, after, path, stays)
    return (*fixed, *accounts, *_queues(before, after, path, stays))


def _fixed(before: Policy, after: Policy, path: str) -> tuple[str, ...]:
    changed = {
        "[site] cluster": (before.site.cluster, after.site.cluster),
        "[site] service_account": (before.site.service_account, after.site.service_account),
        "[site] state": (before.site.state, after.site.state),
        f"[cluster.{after.site.cluster}] kind": (_kind(before), _kind(after)),
    }
    return tuple(
        f'{path}: {key} = "{new}": the service has "{old}"; {NEEDS_NEW_SERVICE}'
        for key, (old, new) in changed.items()
        if old != new
    )


def _kind(policy: Policy) -> str:
    return policy.local.kind.value if policy.local else "none"


def _accounts(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    """Give the changes of remote accounts that remote jobs still use."""
    for person, cluster in sorted({(person, cluster) for person, cluster, _ in jobs}):
        if cluster not in before.clusters or cluster not in after.clusters:
            continue
        old, new = (policy.clusters[cluster].users.account_of(person) for policy in (before, after))
        if old != new:
            yield (
                f'{path}: [cluster.{cluster}.users] {person} = "{new}": a job of {person} is there'
                f' as "{old}"; put that back, and change it when none is away'
            )


def _queues(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    """Give the transfer queues that change their remote cluster despite remote jobs."""
    for name, old in sorted({(queue, cluster) for _, cluster, queue in jobs}):
        if name not in before.queues or name not in after.queues:
            continue
        new = after.queues[name].cluster
        if new != old == before.queues[name].cluster:
            yield (
                f'{path}: [queue.{name}] cluster = "{new}": jobs of this queue are at "{old}";'
                f' put that back, and make another queue for "{new}"'
            )
