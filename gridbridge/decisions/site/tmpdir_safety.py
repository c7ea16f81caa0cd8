"""Where execd makes TMPDIR (queue_conf(5), tmpdir): whoever can write there can put a link there.

If TMPDIR is there already, Grid Engine 8.1.9's execd follows it and gives its target to the job's
owner, with gridbridge or without (docs/explanation/security.md). Most sites have /tmp, so it
is a note.
"""

from collections.abc import Collection, Iterator, Mapping

from gridbridge.model.attributes import Settings
from gridbridge.model.site.setup_findings import CheckFinding, EditVerb, FindingState, SetupEdit

TMPDIR = "tmpdir"
SAFE = "/var/tmp/sge"  # noqa: S108 - root makes it, mode 0755
MAKE = f"install -d -o root -g root -m 0755 {SAFE}"
MOST = 5  # queues that are named


def folders(queues: Mapping[str, Settings]) -> dict[str, tuple[str, ...]]:
    """Return each folder with the queues that have it, of `/tmp,[@big=/scratch]` both."""
    queues_by_folder: dict[str, tuple[str, ...]] = {}
    for name, queue in sorted(queues.items()):
        parts = (part.rpartition("=")[2] for part in queue.get(TMPDIR, "").split(","))
        for folder in dict.fromkeys(part.strip("[] ") for part in parts):
            if folder.startswith("/"):
                queues_by_folder[folder] = (*queues_by_folder.get(folder, ()), name)
    return queues_by_folder


def findings(
    cell: str, queues: Mapping[str, Settings], written: Collection[str]
) -> Iterator[CheckFinding]:
    """Judge each folder; others than root may write into those in `written`."""
    for folder, names in folders(queues).items():
        item = f"{TMPDIR} {folder}"
        if folder not in written:
            yield CheckFinding(item=item, state=FindingState.OK, found="only root writes there")
            continue
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        yield CheckFinding(
            item=item,
            state=FindingState.NOTE,
            found=f"others write there; of {', '.join(names[:MOST])}{more}",
            right="a folder in which only root can write",
            mend=(
                SetupEdit(verb=EditVerb.SHELL, value=MAKE),
                *(_move(cell, name) for name in names),
            ),
            hint=f"execd follows a link put there; make {SAFE} on each host of theirs",
        )


def _move(cell: str, queue: str) -> SetupEdit:
    return SetupEdit(
        verb=EditVerb.REPLACE, cell=cell, kind="queue", name=queue, attribute=TMPDIR, value=SAFE
    )
