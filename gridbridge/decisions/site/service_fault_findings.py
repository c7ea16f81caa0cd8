"""Findings about faults of services: an older configuration or version, hanging rounds, and full folders."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, PYTHON
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.published_rebalance_rounds import (
    LONGEST_ROUND,
    WORDS,
    PublishedRebalanceRound,
    RebalanceRoundKind,
)
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import FolderFreeSpace, PollerProcessFacts
from gridbridge.model.site_configuration import Policy

CONFIGURATION_ITEM = "poller: gridbridge.toml"
OLDER_IN_FORCE = "the service uses an older gridbridge.toml"
AWAIT_RELOAD_EDIT = SetupEdit(
    verb=SetupEditVerb.SHELL,
    name="wait until a running service has read gridbridge.toml",
    value=f"{PYTHON} -I -m gridbridge.site.configuration_wait",
)
NEW_IN_FORCE = "the new file"


def is_new_configuration_refused(poller: PollerProcessFacts) -> bool:
    """Say whether the running service rejects the valid gridbridge.toml on disk."""
    configuration = poller.configuration
    return bool(configuration and not configuration.is_same and configuration.refused)


def is_config_reload_awaited(poller: PollerProcessFacts) -> bool:
    configuration = poller.configuration
    return bool(configuration and not configuration.is_same and not configuration.refused)


def stale_configuration_reason(poller: PollerProcessFacts) -> str:
    wrong = (finding for finding in stale_configuration_findings(poller) if finding.state != FindingSeverity.OK)
    return next((f"{finding.found}; {finding.hint}" for finding in wrong), "")


def stale_configuration_findings(poller: PollerProcessFacts, is_right: bool = True) -> Iterator[CheckFinding]:
    configuration = poller.configuration
    if configuration is None:
        return
    if configuration.is_same:
        yield CheckFinding.ok_finding(CONFIGURATION_ITEM, "in force")
    elif not is_right:
        hint = "the service keeps the older file until the new file is valid"
        yield CheckFinding.warning_finding(CONFIGURATION_ITEM, OLDER_IN_FORCE, NEW_IN_FORCE, hint=hint)
    elif configuration.refused:
        hint = "the service keeps the older file until these errors are corrected"
        actual = f"{OLDER_IN_FORCE}; the service refuses the new file: {'; '.join(configuration.refused)}"
        yield CheckFinding.fault_finding(CONFIGURATION_ITEM, actual, NEW_IN_FORCE, hint=hint)
    else:
        edits = (SetupEdit.shell_command_edit(f"kill -HUP {poller.pid}"),) if poller.pid else ()
        hint = "the service reads the file within seconds; to read it at once: systemctl reload gridbridge-poller"
        yield CheckFinding.warning_finding(CONFIGURATION_ITEM, OLDER_IN_FORCE, NEW_IN_FORCE, *edits, hint=hint)


POLLER = "gridbridge-poller"
UNKNOWN = "an unknown version"  # a program can't record its version on a full disk


@dataclass(frozen=True, slots=True)
class RunningProgramVersion:
    """A running program's version (empty: unknown) and process id (0: unknown)."""

    version: str
    pid: int


def program_version_finding(running: Mapping[str, RunningProgramVersion], installed: str) -> CheckFinding:
    outdated = {
        program: process for program, process in running.items() if not _is_same_version(process.version, installed)
    }
    if not outdated:
        return CheckFinding.ok_finding("version", installed)
    differing = ", ".join(f"{program} runs {process.version or UNKNOWN}" for program, process in outdated.items())
    pids = " ".join(str(process.pid) for process in outdated.values() if process.pid)
    by_hand = (
        f"`kill {pids}`" if pids else "end each program",
        "start each program as before" if outdated.keys() - {POLLER} else "",
        "the load sensor starts the poller" if POLLER in outdated else "",
    )
    hint = f"systemctl restart {' '.join(outdated)}; without systemd {', '.join(filter(None, by_hand))}"
    return CheckFinding.fault_finding("version", differing, installed, hint=hint)


def _is_same_version(running: str, installed: str) -> bool:
    """Compare two versions; commits are compared only if both versions name a commit."""
    (version, _, commit), (right, _, commit_there) = running.partition("+"), installed.partition("+")
    return version == right and (commit == commit_there or not (commit and commit_there))


AwayJob: TypeAlias = tuple[str, str, str]  # a remote job's owner, cluster and transfer queue


def find_unreloadable_changes(
    before: Policy, after: Policy, path: str = CONFIG, jobs_away: Iterable[AwayJob] = ()
) -> tuple[str, ...]:
    """Return the configuration changes that a running service can't apply.

    Home cluster, service account, state file and embedded kind are fixed. An account identifies a remote job's
    owner, and a queue's methods find its remote jobs: both stay until the jobs have ended.
    """
    stays = frozenset(jobs_away)
    changed = {
        "[site] cluster": (before.site.cluster, after.site.cluster),
        "[site] service_account": (before.site.service_account, after.site.service_account),
        "[site] state": (before.site.state, after.site.state),
        f"[cluster.{after.site.cluster}] kind": (_home_cluster_kind(before), _home_cluster_kind(after)),
    }
    fixed = (
        f'{path}: {key} = "{new}": the running service uses "{old}"; restart the poller when no transfer is open'
        for key, (old, new) in changed.items()
        if old != new
    )
    return (
        *fixed,
        *_changed_account_problems(before, after, path, stays),
        *_changed_queue_problems(before, after, path, stays),
    )


def _home_cluster_kind(policy: Policy) -> str:
    return policy.home_cluster_section.kind.value if policy.home_cluster_section else "none"


def _changed_account_problems(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    for person, cluster in sorted({(person, cluster) for person, cluster, _ in jobs}):
        if cluster not in before.clusters or cluster not in after.clusters:
            continue
        old, new = (policy.clusters[cluster].users.remote_account_of_user(person) for policy in (before, after))
        if old != new:
            yield (
                f'{path}: [cluster.{cluster}.users] {person} = "{new}": a job of {person} runs at {cluster}'
                f' as "{old}"; restore "{old}" until no such job is left'
            )


def _changed_queue_problems(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    for name, old in sorted({(queue, cluster) for _, cluster, queue in jobs}):
        if name not in before.queues or name not in after.queues:
            continue
        new = after.queues[name].cluster
        if new != old == before.queues[name].cluster:
            yield (
                f'{path}: [queue.{name}] cluster = "{new}": jobs of this queue are at "{old}";'
                f' restore "{old}", and make another queue for "{new}"'
            )


LATE_ROUND_HINT = (
    "the round's log says what fails or blocks; `ps -eo pid,etime,args | grep rebalance` shows a"
    " hanging round, which may be killed: the next round continues its work"
)

RESUME_COMMAND = "gridbridge rebalance quiesce --off"


def rebalance_round_findings(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], at: datetime
) -> Iterator[CheckFinding]:
    for kind, last in rounds.items():
        hangs = is_rebalance_round_late(kind, last, at)
        age = _format_age(at - ((not last.is_open and last.ended_at) or last.began_at))
        ended = f"the last round ended {age} ago"
        actual = f"no round has ended since a round began {age} ago" if last.is_open else ended
        right = f"a round that ends within {_format_age(LONGEST_ROUND[kind])}"
        yield CheckFinding.finding_by_condition(
            not hangs, f"rebalancing: {kind.value}", actual, right, is_warning=True, hint=LATE_ROUND_HINT
        )


def paused_rebalance_finding(since: datetime, at: datetime) -> CheckFinding:
    actual = f"moves have been paused for {_format_age(at - since)}"
    return CheckFinding.weakness_finding(
        "rebalancing: quiesce", actual, "moves resumed", hint=f"to resume: {RESUME_COMMAND}"
    )


def paused_rebalance_sentence(since: datetime, at: datetime) -> str:
    """Return one line about paused rebalancing moves, with the command that resumes the moves."""
    return f"rebalancing: moves have been paused for {_format_age(at - since)}, until `{RESUME_COMMAND}`"


def is_rebalance_round_late(kind: RebalanceRoundKind, last: PublishedRebalanceRound, at: datetime) -> bool:
    return last.is_open and at - last.began_at > LONGEST_ROUND[kind]


def late_rebalance_sentences(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], at: datetime
) -> tuple[str, ...]:
    return tuple(
        f"rebalancing: no {WORDS[kind]} has ended since a round began {_format_age(at - last.began_at)} ago"
        for kind, last in rounds.items()
        if is_rebalance_round_late(kind, last, at)
    )


def _format_age(passed: timedelta) -> str:
    minutes = max(0, int(passed / timedelta(minutes=1)))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


RUNNER_LATE = timedelta(minutes=5)  # cron starts a cycle each minute; a slow cycle takes a minute or two
RUNNER_HINT = "gridbridge setup campaigns --apply starts gridbridge-runner; if gridbridge-runner runs, its log says why"


def campaign_runner_cycle_findings(
    going_on: int, brought: int, last: datetime | None, at: datetime
) -> Iterator[CheckFinding]:
    """Check the runner's last cycle, if campaigns or submitted files wait."""
    if not (going_on or brought):
        return
    late = "never" if last is None else f"{int((at - last) / timedelta(minutes=1))} min ago"
    is_recent = last is not None and at - last <= RUNNER_LATE
    news = f" and {number_with_noun(brought, 'file')} not accepted yet" if brought else ""
    actual = f"{going_on} unfinished{news}; last cycle of gridbridge-runner: {late}"
    yield CheckFinding.finding_by_condition(
        is_recent, "campaigns", actual, "a cycle each minute", is_warning=True, hint=RUNNER_HINT
    )


def shared_master_folders_finding(program: str, masters: Mapping[str, tuple[int, str]]) -> CheckFinding:
    """Check that all shared folders name the same master; `masters` has the term and the host in each folder."""
    records = {folder: f"term {term} of {host.partition('/')[0]}" for folder, (term, host) in masters.items()}
    is_same = len({*masters.values()}) == 1
    actual = next(iter(records.values())) if is_same else "; ".join(f"{at}: {name}" for at, name in records.items())
    hint = "mount these folders from one file server on all hosts that run the campaign service"
    return CheckFinding.finding_by_condition(is_same, f"master of {program}", actual, "one term", hint=hint)


MIN_FREE_BYTES = 1 << 20  # room for 256 messages of the largest size
MIN_FREE_FILES = 256
KIB = 1024


def full_folder_reason(folder: str, room: FolderFreeSpace) -> str:
    if room.free_bytes is not None and room.free_bytes < MIN_FREE_BYTES:
        figures = f"{room.free_bytes // KIB} KiB are free, {MIN_FREE_BYTES // KIB} are needed"
        return f"{folder} is full: {figures}"
    if room.free_files is not None and room.free_files < MIN_FREE_FILES:
        return f"{folder} is full: {room.free_files} files are free, {MIN_FREE_FILES} are needed"
    return f"nothing can be written to {folder}: {room.trouble}" if room.trouble else ""


def first_full_folder_reason(rooms: Mapping[str, FolderFreeSpace]) -> str:
    return next(filter(None, (full_folder_reason(folder, room) for folder, room in rooms.items())), "")


OWNERS_SHOWN = 3
NO_CAMPAIGNS = "no campaign can be submitted until then"


def disk_space_findings(rooms: Mapping[str, FolderFreeSpace]) -> Iterator[CheckFinding]:
    """Check each folder's free bytes and inodes; report folders in the spool, which is for messages."""
    for folder, room in rooms.items():
        item = f"room in {folder}"
        if lacking := full_folder_reason(folder, room):
            right = f"{MIN_FREE_BYTES // KIB} KiB and {MIN_FREE_FILES} files"
            until = NO_CAMPAIGNS if folder == CAMPAIGNS else "the queues are closed until then"
            hint = f"remove files from the folder's filesystem; {until}"
            yield CheckFinding.fault_finding(item, lacking, right, hint=hint)
        else:
            files = "" if room.free_files is None else f", {room.free_files} files"
            yield CheckFinding.ok_finding(item, f"{(room.free_bytes or 0) // KIB // KIB} MiB{files}")
        if room.folders:
            ranked = sorted(room.folders.items(), key=lambda owner_count: (-owner_count[1], owner_count[0]))
            actual = ", ".join(f"{count} of {owner}" for owner, count in ranked[:OWNERS_SHOWN])
            hint = "only root can remove these folders; the service lists the folders in each round"
            yield CheckFinding.warning_finding(f"folders in {folder}", actual, "only messages", hint=hint)
