"""The scheduler's part: home first, and not everything at once (sched_conf(5))."""

from collections.abc import Iterator

from gridbridge.model.qconf_attributes import parse_pairs
from gridbridge.model.site.setup_findings import (
    CheckFinding,
    EditVerb,
    FindingState,
    SetupEdit,
    SharedSettingUndo,
    TransferSetupSituation,
)

QUEUE_ORDER, BY_NUMBER = "queue_sort_method", "seqno"
DEFAULT_DECAYS = ("0:7:30", "00:07:30")  # as Grid Engine ships it: meant for np_load_avg
NO_DECAYS = ("0:0:0", "00:00:00")  # adjustments are off
DECAY = "0:0:30"  # about how long a sent job takes to show in the published count


def scheduler_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Judge the queue order and, with a pending limit, the damping.

    Each job that was just sent counts as one that waits there until the sensor can know of it;
    without that, all free slots are filled in the seconds after the queue opens.
    """
    order = _setting(situation, "queue order", QUEUE_ORDER, BY_NUMBER, FindingState.BROKEN)
    if not situation.wanted.pending_limit:
        return (order,)
    return (order, _adjustment(situation), _decay(situation))


def _setting(
    situation: TransferSetupSituation,
    item: str,
    attribute: str,
    right: str,
    state: FindingState,
    undo: bool = True,
) -> CheckFinding:
    cell, actual = situation.wanted.home, situation.home.scheduler.get(attribute, "")
    return scheduler_setting_finding(item, cell, attribute, (actual, right), state, undo=undo)


def scheduler_setting_finding(
    item: str,
    cell: str,
    attribute: str,
    values: tuple[str, str],
    state: FindingState,
    *,
    undo: bool,
) -> CheckFinding:
    """Judge a setting of a cell's scheduler by its values, the one it has and the right one."""
    actual, right = values
    if actual == right:
        return CheckFinding(item=item, state=FindingState.OK, found=f"{attribute} {actual}")
    edit = SetupEdit(verb=EditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=right)
    undo_edit = SetupEdit(verb=EditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=actual)
    return CheckFinding(
        item=item,
        state=state,
        found=f"{attribute} {actual}",
        right=f"{attribute} {right}, for the whole cluster",
        mend=(edit,),
        undo=(SharedSettingUndo(done=edit, undo=undo_edit),) if undo else (),
    )


def _adjustment(situation: TransferSetupSituation) -> CheckFinding:
    """Judge the damping of every transfer queue: each set-up writes the whole list."""
    actual = right = situation.home.scheduler.get("job_load_adjustments", "NONE")
    for name in dict.fromkeys((f"{situation.wanted.prefix}_pending", *_pending_values(situation))):
        if name not in parse_pairs(actual):
            right = _join(right, f"{name}=1")
    return _setting(
        situation, "damping", "job_load_adjustments", right, FindingState.WARNING, undo=False
    )


def _pending_values(situation: TransferSetupSituation) -> Iterator[str]:
    """Give the load values at which the queues of other clusters close."""
    for queue in situation.home.queues.values():
        for name in parse_pairs(queue.get("load_thresholds", "")):
            if name.startswith("gb_") and name.endswith("_pending"):
                yield name


def _join(listed: str, entry: str) -> str:
    return entry if listed.upper() == "NONE" else f"{listed},{entry}"


def _decay(situation: TransferSetupSituation) -> CheckFinding:
    """Judge the decay; a time of the site's own choice is left alone."""
    actual = situation.home.scheduler.get("load_adjustment_decay_time", "")
    right = DECAY if actual in (*DEFAULT_DECAYS, *NO_DECAYS) else actual
    return _setting(
        situation, "damping time", "load_adjustment_decay_time", right, FindingState.WARNING
    )
