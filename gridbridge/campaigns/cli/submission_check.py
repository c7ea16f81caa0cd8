"""What gridsub --check tells of a campaign that it does not store."""

from collections.abc import Sequence

from gridbridge.campaigns.cli import REFUSED
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools import admission_check
from gridbridge.campaigns.tools.submission_preview import ClusterPreview, preview
from gridbridge.cli import output
from gridbridge.model.status_report import count, printable

TOO_SMALL = "for ever: no cluster of the campaign is large enough for a task"
NOWHERE = "for ever: no cluster of the campaign has what its tasks ask for"
SPREAD = (
    "{}: it has not told its parallel environments yet, so a task's slots may lie on other hosts"
    " than it asks for; pe chooses an environment"
)


def check(parsed: ParsedJdl) -> int:
    """Tell which rules fired, and what would go where; the exit status is 1 for a refusal."""
    admission = admission_check.admitted(parsed)
    for fired in admission.fired:
        for change in fired.changes:
            output.line(f"rule {fired.rule} changes {printable(change)}")
    if admission.refusal:
        output.complain(f"gridsub: {printable(admission.refusal)}")
        return REFUSED
    previewed = preview(parsed, admission)
    output.line(
        f"{printable(admission.jdl.name)}: {count(previewed.tasks, 'task')}, nothing is stored"
    )
    for cluster in previewed.there:
        output.line(_sentence(cluster))
        if cluster.may_be_spread:
            output.line(SPREAD.format(cluster.cluster))
    waiting = previewed.tasks - sum(cluster.tasks for cluster in previewed.there)
    if waiting:
        output.line(f"{waiting} would wait {_for_what(previewed.there)}")
    if previewed.before:
        before = count(previewed.before, "task")
        verbs = "waits as well, and goes" if previewed.before == 1 else "wait as well, and go"
        output.line(f"{before} of campaigns before it {verbs} first")
    return 0


def _for_what(clusters: Sequence[ClusterPreview]) -> str:
    if all(cluster.lacks for cluster in clusters):
        return TOO_SMALL
    return (
        NOWHERE
        if all(cluster.lacks or cluster.unknown for cluster in clusters)
        else "for free slots"
    )


def _sentence(cluster: ClusterPreview) -> str:
    if cluster.lacks:
        needed, has = cluster.lacks
        needs = f"a task needs {count(needed, 'slot')}, and it has {has}"
        return f"{cluster.cluster}: {needs}: none goes there"
    if cluster.unknown:
        return f"{cluster.cluster} has no {', no '.join(cluster.unknown)}: none goes there"
    if cluster.is_drained or cluster.is_stressed:
        state = "drained" if cluster.is_drained else "under stress"
        return f"{cluster.cluster}: it is {state}: nothing goes there until that ends"
    if cluster.free_slots is None:
        return f"{cluster.cluster}: nobody knows its free slots yet"
    free, tasks = count(cluster.free_slots, "free slot"), count(cluster.tasks, "task")
    when = "once its prologue has ended there" if cluster.has_prologue else "now"
    return f"{cluster.cluster}: {free}, {tasks} would go there {when}"
