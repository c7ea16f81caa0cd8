"""Looks at this host and at both qmasters for the check; nothing here judges."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.decisions.site import transfer_host
from gridbridge.decisions.site.transfer_host import OTHERS_WRITE
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.places import (
    CONFIG,
    HOME,
    LOCK,
    PUBLISHED,
    PYTHON,
    ROOTS,
    SPOOL,
    SUDOERS,
)
from gridbridge.model.policy import Policy
from gridbridge.model.site.host_facts import (
    CellFacts,
    ConfigurationFacts,
    FolderRoom,
    HostFacts,
    PathFacts,
    PollerFacts,
    TreeFacts,
)
from gridbridge.model.states import QueueState
from gridbridge.program.watch.disk_space_watch import own_rooms
from gridbridge.shell import host, poller_lock, trust
from gridbridge.shell.account import words_as
from gridbridge.shell.clock import Clock
from gridbridge.shell.runner import run
from gridbridge.site.queue_request import makes_queues
from gridbridge.state import published_json, published_values

HOT = "gridbridge.transfer.starter.starter, gridbridge.transfer.starter.control_methods"
IMPORT_S = 20.0
POLLERS = ("gridbridge.transfer.poller.program", "gridbridge-poller")


def host_facts(policy: Policy) -> HostFacts:
    """Return everything by which the set-up of this host is judged."""
    account = policy.site.service_account
    with ThreadPoolExecutor(1) as threads:
        importing = threads.submit(_import_trouble, account)
        return replace(_host_facts(policy), import_trouble=importing.result())


def _host_facts(policy: Policy) -> HostFacts:
    account = policy.site.service_account
    return HostFacts(
        name=host.name(),
        service_uid=host.uid_of(account),
        is_root=os.geteuid() == 0,
        paths=_paths(policy),
        trees={folder: tree for folder in ROOTS if (tree := _tree(folder))},
        hidden=frozenset(path for path in _strict(policy) if host.is_hidden(path))
        | frozenset(path for path in (SUDOERS,) if host.is_unreadable(path)),
        closed_to_others={
            path: folder for path in transfer_host.PROGRAMS if (folder := host.closed_folder(path))
        },
        sudoers=host.text(SUDOERS),
        room=rooms(),
    )


def rooms() -> dict[str, FolderRoom]:
    """Return how much room the spool, with its other filesystem, and the published folder have."""
    by_folder = {folder: host.room(folder) for folder in (SPOOL, PUBLISHED)} | own_rooms()
    return by_folder | {SPOOL: replace(by_folder[SPOOL], folders=host.folders_of_others(SPOOL))}


def is_written(folder: str) -> bool:
    """Say whether others than root may write into a folder of this host, if it is there."""
    facts = host.path_facts(folder, follow=True)
    return facts is not None and (facts.owner != 0 or bool(facts.mode & OTHERS_WRITE))


def poller_facts(sha256: str | None, now_s: float) -> PollerFacts:
    """Return whether the poller runs, the age of its values, and whether it read that file.

    None: the poller reads another file, which is not checked.
    """
    home_facts = host.path_facts(HOME)
    uid = home_facts.owner if home_facts else 0
    pids = (host.pid_with(words, uid) for words in POLLERS) if uid else ()
    taken_at_s, stale_s, values = _load()
    age_s = now_s - taken_at_s if taken_at_s else None
    is_fresh = age_s is not None and -1 <= age_s <= stale_s
    return PollerFacts(
        is_running=poller_lock.is_held(LOCK),
        pid=next(filter(None, pids), 0),
        age_s=age_s,
        last_words=host.last_line(f"{HOME}/poller.log"),
        values=values,
        configuration=None if sha256 is None or not is_fresh else _configuration(sha256, now_s),
    )


def cell_facts(cluster: str, policy: Policy, clock: Clock) -> CellFacts:
    """Return a cluster's version and clock, or why it gave no answer."""
    remote = away(policy, cluster)
    return adapter_of(remote).answers.facts(remote, clock.now_s())


def folder_queues(policy: Policy) -> dict[str, int]:
    """Return the slots of the local cluster's transfer queues, by name, where it lists them."""
    home = away(policy, policy.site.cluster)
    lists = adapter_of(home).lists_queues
    return lists.transfer_queues(home) if lists else {}


def queue_states(policy: Policy) -> dict[str, QueueState]:
    """Return the state of every transfer queue on every host, as far as the cell tells."""
    home = away(policy, policy.site.cluster)
    instances = makes_queues(home).queue_instances(home, policy.site.cluster)
    ours = (instance for instance in instances if instance.name.partition("@")[0] in policy.queues)
    return {instance.name: instance.state for instance in ours}


def _paths(policy: Policy) -> dict[str, PathFacts]:
    """Return the paths that are there, following only links to programs."""
    by_path = {path: host.path_facts(path) for path in _strict(policy)}
    by_path |= {
        path: host.path_facts(path, follow=True) for path in (*transfer_host.PROGRAMS, CONFIG)
    }
    return {path: facts for path, facts in by_path.items() if facts}


def _tree(folder: str) -> TreeFacts | None:
    """Say who besides root could change a folder; None if it is missing or hidden from us."""
    try:
        above = dict(trust.along(folder))
        within = [doubts for _, doubts in trust.beneath(folder)]
    except OSError:
        return None
    wrong = (*above, *(doubt for doubts in within for doubt, _ in doubts))
    return TreeFacts(files=len(within), wrong=wrong, above=tuple(above.values()))


def _strict(policy: Policy) -> tuple[str, ...]:
    """Return the paths that may not be links."""
    return (
        *transfer_host.FOLDERS,
        SUDOERS,
        *filter(None, (transfer_host.state_path(policy.site),)),
    )


def _import_trouble(account: str) -> str:
    """Run our interpreter as an ordinary user, if there is one; return its error message."""
    if not host.uid_of(account):
        return ""
    argv = (*words_as(account), PYTHON, "-I", "-c", f"import {HOT}")
    try:
        run(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, IMPORT_S).checked()
    except CommandFailed as error:
        return error.reason
    return ""


def _load() -> tuple[float, float, frozenset[str]]:
    """Return when load values were published, how old they may be, and which; 0 for none."""
    try:
        taken_at_s, stale_s, values = published_values.read_load(published_values.load_path())
    except (OSError, GridbridgeError):
        return 0.0, 0.0, frozenset()
    return taken_at_s, stale_s, frozenset(values)


def _configuration(sha256: str, now_s: float) -> ConfigurationFacts | None:
    """Return what the service says of its gridbridge.toml and of the one with this digest."""
    try:
        service = published_json.read_service(PUBLISHED)
    except (OSError, GridbridgeError):
        return None
    configuration = service.configuration if service else None
    if configuration is None:
        return None
    is_judged = configuration.refused_sha256 in ("", sha256)
    return ConfigurationFacts(
        is_same=configuration.sha256 == sha256,
        for_s=now_s - configuration.since.timestamp(),
        refused=configuration.refused if is_judged else (),
    )
