"""Looks at this host and at both qmasters for the check; nothing here judges."""

import os
import time

from gridbridge import __version__
from gridbridge.apply.routes import away, cell
from gridbridge.batch.embedded import status as embedded
from gridbridge.batch.gridengine import objects
from gridbridge.batch.oar import server
from gridbridge.decisions import site
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.places import CONFIG, HOME, LOCK, PYTHON, SUDOERS
from gridbridge.model.policy import Policy
from gridbridge.model.route import Folder, OarServer
from gridbridge.model.site import CellFacts, HostFacts, PathFacts, PollerFacts
from gridbridge.shell import host, lock
from gridbridge.shell.runner import run
from gridbridge.state import published

HOT = "gridbridge.methods.starter, gridbridge.methods.control"
IMPORT_S = 20.0
POLLERS = ("gridbridge.services.poller", "gridbridge-poller")


def host_facts(policy: Policy) -> HostFacts:
    """Return what the set-up of this host is judged by."""
    account = policy.site.service_account
    return HostFacts(
        name=host.name(),
        service_uid=host.uid_of(account),
        paths=_paths(policy),
        hidden=frozenset(path for path in _strict(policy) if host.is_hidden(path))
        | frozenset(path for path in (SUDOERS,) if host.is_unreadable(path)),
        closed_to_others={
            path: folder for path in site.PROGRAMS if (folder := host.closed_folder(path))
        },
        sudoers=host.text(SUDOERS),
        import_trouble=_import_trouble(account) if host.uid_of(account) else "",
    )


def poller_facts(policy: Policy) -> PollerFacts:
    """Return whether the poller runs, and how old its values are."""
    is_running = lock.is_held(LOCK)
    uid = host.uid_of(policy.site.service_account)
    pids = (host.pid_with(words, uid) for words in POLLERS)
    pid = next(filter(None, pids), 0)
    return PollerFacts(
        is_running=is_running,
        pid=pid,
        age_s=_age_s(policy),
        last_words=host.last_line(f"{HOME}/poller.log"),
    )


def cell_facts(cluster: str, policy: Policy) -> CellFacts:
    """Return a qmaster's version and clock, or why it gave no answer."""
    there = away(policy, cluster)
    if isinstance(there, OarServer):
        return _server_facts(there)
    if isinstance(there, Folder):
        return _folder_facts(there)
    try:
        master = objects.master(there)
    except GridbridgeError as error:
        return CellFacts(trouble=str(error))
    try:
        objects.check_answers(there)
        return CellFacts(
            version=objects.version(there),
            ahead_s=objects.master_offset_s(there, time.time()),
            master=master,
        )
    except GridbridgeError as error:
        return CellFacts(trouble=str(error), master=master)


def _server_facts(there: OarServer) -> CellFacts:
    """Return the same of an OAR server; what tells its slots needs its database."""
    try:
        return CellFacts(
            version=server.version(there),
            ahead_s=server.ahead_s(there, time.time()),
            slots=server.slots(there),
            master=server.place(there),
        )
    except GridbridgeError as error:
        return CellFacts(trouble=str(error))


def _folder_facts(there: Folder) -> CellFacts:
    """Return the same of an embedded cluster, whose version and clock are ours."""
    try:
        seen, _ = embedded.snapshot(there, "", ())
    except GridbridgeError as error:
        return CellFacts(trouble=str(error), master=there.path)
    own = seen.queues[0].slots_total
    return CellFacts(version=__version__, slots=own, master=there.path)


def folder_queues(path: str) -> dict[str, int]:
    """Return the slots of an embedded cluster's transfer queues, by name."""
    folder = Folder(path=path, python=PYTHON, timeout_s=IMPORT_S)
    _, *queues = embedded.snapshot(folder, "", ())[0].queues
    return {queue.name.partition("@")[0]: queue.slots_total for queue in queues}


def letters(policy: Policy) -> dict[str, str]:
    """Return the state of every transfer queue on every host, as far as the cell tells."""
    instances = objects.queue_instances(cell(policy, policy.site.cluster), policy.site.cluster)
    ours = (each for each in instances if each.name.partition("@")[0] in policy.queues)
    return {each.name: each.letters for each in ours}


def _paths(policy: Policy) -> dict[str, PathFacts]:
    """Return what is there; programs through links, folders and the sudoers file as they are."""
    seen = {path: host.path_facts(path) for path in _strict(policy)}
    seen |= {path: host.path_facts(path, follow=True) for path in (*site.PROGRAMS, CONFIG)}
    return {path: found for path, found in seen.items() if found}


def _strict(policy: Policy) -> tuple[str, ...]:
    """Return the paths that may not be links."""
    return (*site.FOLDERS, SUDOERS, *filter(None, (site.state_path(policy.site),)))


def _import_trouble(account: str) -> str:
    """Run our interpreter as an ordinary user; return what it complains of."""
    become = (
        ("/usr/bin/setpriv", "--clear-groups", "--reuid", account, "--") if os.getuid() == 0 else ()
    )
    argv = (*become, PYTHON, "-I", "-c", f"import {HOT}")
    try:
        run(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, IMPORT_S).checked()
    except CommandFailed as error:
        return error.reason
    return ""


def _age_s(policy: Policy) -> float | None:
    """Return the age of the published load values, None when there are none to read."""
    try:
        return time.time() - published.load_time(published.load_path())
    except (OSError, GridbridgeError):
        return None
