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


def check(said: ParsedJdl) -> int:
    """Tell which rules fired, and what would go where; the exit status is 1 for a refusal."""
    told = admission_check.admitted(said)
    for fired in told.fired:
        for change in fired.changes:
            output.line(f"rule {fired.rule} changes {printable(change)}")
    if told.refusal:
        output.complain(f"gridsub: {printable(told.refusal)}")
        return REFUSED
    found = preview(said, told)
    output.line(f"{printable(told.jdl.name)}: {count(found.tasks, 'task')}, nothing is stored")
    for there in found.there:
        output.line(_sentence(there))
        if there.may_be_spread:
            output.line(SPREAD.format(there.cluster))
    left = found.tasks - sum(there.tasks for there in found.there)
    if left:
        output.line(f"{left} would wait {_for_what(found.there)}")
    if found.before:
        before = count(found.before, "task")
        verbs = "waits as well, and goes" if found.before == 1 else "wait as well, and go"
        output.line(f"{before} of campaigns before it {verbs} first")
    return 0


def _for_what(every: Sequence[ClusterPreview]) -> str:
    if all(there.lacks for there in every):
        return TOO_SMALL
    return NOWHERE if all(there.lacks or there.unknown for there in every) else "for free slots"


def _sentence(there: ClusterPreview) -> str:
    if there.lacks:
        wanted, has = there.lacks
        needs = f"a task needs {count(wanted, 'slot')}, and it has {has}"
        return f"{there.cluster}: {needs}: none goes there"
    if there.unknown:
        return f"{there.cluster} has no {', no '.join(there.unknown)}: none goes there"
    if there.is_drained or there.is_stressed:
        state = "drained" if there.is_drained else "under stress"
        return f"{there.cluster}: it is {state}: nothing goes there until that ends"
    if there.free_slots is None:
        return f"{there.cluster}: nobody knows its free slots yet"
    free, tasks = count(there.free_slots, "free slot"), count(there.tasks, "task")
    when = "once its prologue has ended there" if there.has_prologue else "now"
    return f"{there.cluster}: {free}, {tasks} would go there {when}"
