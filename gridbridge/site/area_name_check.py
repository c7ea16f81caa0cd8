"""Looks into storage areas for accounts' names that belong to somebody else."""

from collections.abc import Iterator

from gridbridge.batch.clusters import away
from gridbridge.decisions.site import area_names
from gridbridge.errors import GridbridgeError
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.storage_areas import Storage
from gridbridge.model.route import BARE, Away
from gridbridge.model.site.setup_findings import CheckFinding
from gridbridge.shell import host, ssh

LIMIT_S = 20.0
MOST = 20_000  # names to look at: anybody may make more
LIST = """[ -d "$1/" ] && [ -r "$1/" ] || exit 1
find "$1/" -mindepth 1 -maxdepth 1 -printf '%u %y %f\\0' 2>/dev/null | head -zn "$2" """
ACCOUNTS = "xargs -d '\\n' getent passwd -- | cut -d: -f1"  # they may be too long for one command


def findings(policy: Policy) -> tuple[CheckFinding, ...]:
    """Judge the names in each area that root, or the service's account elsewhere, can list."""
    return tuple(_findings(policy))


def _findings(policy: Policy) -> Iterator[CheckFinding]:
    for name, storage in policy.storage.items():
        cluster = away(policy, storage.cluster)
        machine = cluster.login.host if cluster.login else host.name()
        taken_names, has_more = _taken(cluster, storage)
        most = MOST if has_more else 0
        yield from area_names.findings(name, storage.path, machine, taken_names, most)


def _taken(cluster: Away, storage: Storage) -> tuple[dict[str, str] | None, bool]:
    """Return accounts whose names others own, with the owners, and whether there are more names.

    None if nobody can look.
    """
    try:
        entries = _ask(cluster, LIST, storage.path, str(MOST + 1)).split("\0")[:-1]
        strange = area_names.strange_names(entries[:MOST])
        text = "".join(f"{name}\n" for name in strange).encode()
        accounts = _ask(cluster, ACCOUNTS, text=text).splitlines() if strange else []
    except GridbridgeError:
        return None, False  # other findings name a silent cluster
    taken_names = {name: strange[name] for name in accounts if name in strange}
    return taken_names, len(entries) > MOST


def _ask(cluster: Away, script: str, *words: str, text: bytes = b"") -> str:
    argv = ("/bin/sh", "-c", script, "sh", *words)
    answer = ssh.run(cluster.login, argv, dict(BARE), LIMIT_S, text).checked()
    return answer.stdout.decode("utf-8", "replace")
