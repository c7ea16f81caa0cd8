"""What gridsub --check tells of a campaign that it does not store."""

from gridbridge.cli import output
from gridbridge.cli.grid import REFUSED
from gridbridge.config.brought.jdl import Said
from gridbridge.model.report import count, printable
from gridbridge.services.tools import campaign_check
from gridbridge.services.tools.campaign_check import There

NOWHERE = "for ever: no cluster of the campaign is large enough for a task"


def check(said: Said) -> int:
    """Tell which rules fired, and what would go where; the exit status is 1 for a refusal."""
    told = campaign_check.admitted(said)
    for fired in told.fired:
        for change in fired.changes:
            output.line(f"rule {fired.rule} changes {printable(change)}")
    if told.refusal:
        output.complain(f"gridsub: {printable(told.refusal)}")
        return REFUSED
    found = campaign_check.check(said, told)
    output.line(f"{printable(told.jdl.name)}: {count(found.tasks, 'task')}, nothing is stored")
    for there in found.there:
        output.line(_sentence(there))
    left = found.tasks - sum(there.tasks for there in found.there)
    if left:
        fits_nowhere = all(there.lacks for there in found.there)
        output.line(f"{left} would wait {NOWHERE if fits_nowhere else 'for free slots'}")
    if found.before:
        before = count(found.before, "task")
        verbs = "waits as well, and goes" if found.before == 1 else "wait as well, and go"
        output.line(f"{before} of campaigns before it {verbs} first")
    return 0


def _sentence(there: There) -> str:
    if there.lacks:
        wanted, has = there.lacks
        needs = f"a task needs {count(wanted, 'slot')}, and it has {has}"
        return f"{there.cluster}: {needs}: none goes there"
    if there.is_drained or there.is_stressed:
        state = "drained" if there.is_drained else "under stress"
        return f"{there.cluster}: it is {state}: nothing goes there until that ends"
    if there.free_slots is None:
        return f"{there.cluster}: nobody knows its free slots yet"
    free, tasks = count(there.free_slots, "free slot"), count(there.tasks, "task")
    return f"{there.cluster}: {free}, {tasks} would go there now"
