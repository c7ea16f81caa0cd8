"""Scheduler settings: local queues first, damped transfers (sched_conf(5))."""

from collections.abc import Iterator

from gridbridge.model.qconf_attributes import parse_qconf_pairs
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferSetupSituation,
)

QUEUE_ORDER, BY_NUMBER = "queue_sort_method", "seqno"
DEFAULT_DECAYS = ("0:7:30", "00:07:30")  # Grid Engine's default, meant for np_load_avg
NO_DECAYS = ("0:0:0", "00:00:00")  # load adjustments are off
DECAY = "0:0:30"  # about the delay until the load values include a transferred job


def sge_scheduler_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check the scheduler's queue order and load adjustments (damping).

    Each transferred job counts as waiting at the remote cluster until the load sensor reports it.
    Without this damping, jobs fill all slots in the seconds after the queue opens.
    """
    order = _setting(situation, "queue order", QUEUE_ORDER, BY_NUMBER, FindingSeverity.BROKEN)
    if not situation.wanted.pending_limit:
        return (order,)
    return (order, _adjustment(situation), _decay(situation))


def _setting(
    situation: TransferSetupSituation, item: str, attribute: str, right: str, state: FindingSeverity, undo: bool = True
) -> CheckFinding:
    cell, actual = situation.wanted.home, situation.home.scheduler.get(attribute, "")
    return scheduler_setting_finding(item, cell, attribute, (actual, right), state, undo=undo)


def scheduler_setting_finding(
    item: str, cell: str, attribute: str, values: tuple[str, str], state: FindingSeverity, *, undo: bool
) -> CheckFinding:
    """Check a scheduler setting; `values` are the present and expected value."""
    actual, right = values
    if actual == right:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=f"{attribute} {actual}")
    edit = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=right)
    undo_edit = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=actual)
    return CheckFinding(
        item=item,
        state=state,
        found=f"{attribute} {actual}",
        right=f"{attribute} {right}, for the whole cluster",
        mend=(edit,),
        undo=(SharedSettingUndo(done=edit, undo=undo_edit),) if undo else (),
    )


def _adjustment(situation: TransferSetupSituation) -> CheckFinding:
    """Check job_load_adjustments for every transfer queue, as one whole list."""
    actual = right = situation.home.scheduler.get("job_load_adjustments", "NONE")
    for name in dict.fromkeys((f"{situation.wanted.prefix}_pending", *_pending_values(situation))):
        if name not in parse_qconf_pairs(actual):
            right = _join(right, f"{name}=1")
    return _setting(situation, "damping", "job_load_adjustments", right, FindingSeverity.WARNING, undo=False)


def _pending_values(situation: TransferSetupSituation) -> Iterator[str]:
    """Give the pending load values in the load thresholds of all transfer queues."""
    for queue in situation.home.queues.values():
        for name in parse_qconf_pairs(queue.get("load_thresholds", "")):
            if name.startswith("gb_") and name.endswith("_pending"):
                yield name


def _join(listed: str, entry: str) -> str:
    return entry if listed.upper() == "NONE" else f"{listed},{entry}"


def _decay(situation: TransferSetupSituation) -> CheckFinding:
    """Check load_adjustment_decay_time; a value chosen by the site is kept."""
    actual = situation.home.scheduler.get("load_adjustment_decay_time", "")
    right = DECAY if actual in (*DEFAULT_DECAYS, *NO_DECAYS) else actual
    return _setting(situation, "damping time", "load_adjustment_decay_time", right, FindingSeverity.WARNING)
