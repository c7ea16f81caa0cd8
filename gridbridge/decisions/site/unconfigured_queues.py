"""Findings about home queues: unconfigured transfer queues, unsafe tmpdir.

The starter can't send jobs of a transfer queue without a section in gridbridge.toml.
"""

from collections.abc import Collection, Iterator, Mapping

from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.model.qconf_attributes import QconfSettings, is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    queue_runs_gridbridge_starter,
)

OFFERS = "offers remote=TRUE"


def unconfigured_queue_findings(queues: Mapping[str, QconfSettings], policy: Policy) -> Iterator[CheckFinding]:
    """Report transfer queues of the home cluster missing in gridbridge.toml."""
    for name, queue in queues.items():
        is_ours = queue_runs_gridbridge_starter(queue) or is_transfer_queue(queue)
        if is_ours and name not in policy.queues:
            yield _nameless(name, "runs gridbridge's starter" if queue_runs_gridbridge_starter(queue) else OFFERS)


def _nameless(queue: str, trait: str) -> CheckFinding:
    """Return the finding about an unconfigured queue, without an edit."""
    section = f"[queue.{queue}]"
    makes = f"gridbridge setup transfer CLUSTER --queue {queue} --apply"
    return CheckFinding(
        item=f"queue {queue}",
        state=FindingSeverity.BROKEN,
        found=f"{trait} and has no {section}: its jobs wait or fail",
        right=f"a {section} in {CONFIG}, or no such queue",
        hint=f"{makes} writes its section, CLUSTER being where it leads; qconf -dq {queue} deletes the queue",
    )


TMPDIR = "tmpdir"
SAFE_TMPDIR = "/var/tmp/sge"  # noqa: S108 - root makes it, mode 0755
MAKE_SAFE_TMPDIR = f"install -d -o root -g root -m 0755 {SAFE_TMPDIR}"
MAX_NAMED_QUEUES = 5  # most queues named in a finding about a tmpdir


def queues_by_tmpdir(queues: Mapping[str, QconfSettings]) -> dict[str, tuple[str, ...]]:
    """Return the queues by tmpdir folder; `/tmp,[@big=/scratch]` has two folders."""
    queues_by_folder: dict[str, tuple[str, ...]] = {}
    for name, queue in sorted(queues.items()):
        parts = (part.rpartition("=")[2] for part in queue.get(TMPDIR, "").split(","))
        for folder in dict.fromkeys(part.strip("[] ") for part in parts):
            if folder.startswith("/"):
                queues_by_folder[folder] = (*queues_by_folder.get(folder, ()), name)
    return queues_by_folder


def writable_tmpdir_findings(
    cell: str, queues: Mapping[str, QconfSettings], written: Collection[str]
) -> Iterator[CheckFinding]:
    """Check each tmpdir; users other than root may write to folders in `written`."""
    for folder, names in queues_by_tmpdir(queues).items():
        item = f"{TMPDIR} {folder}"
        if folder not in written:
            yield CheckFinding(item=item, state=FindingSeverity.OK, found="only root writes there")
            continue
        more = f" and {len(names) - MAX_NAMED_QUEUES} more" if len(names) > MAX_NAMED_QUEUES else ""
        yield CheckFinding(
            item=item,
            state=FindingSeverity.NOTE,
            found=f"users write there; tmpdir of {', '.join(names[:MAX_NAMED_QUEUES])}{more}",
            right="a folder in which only root can write",
            mend=(SetupEdit(verb=SetupEditVerb.SHELL, value=MAKE_SAFE_TMPDIR), *(_move(cell, name) for name in names)),
            hint=f"execd follows symlinks there; make {SAFE_TMPDIR} on each host of these queues",
        )


def _move(cell: str, queue: str) -> SetupEdit:
    return SetupEdit(
        verb=SetupEditVerb.REPLACE, cell=cell, kind="queue", name=queue, attribute=TMPDIR, value=SAFE_TMPDIR
    )
