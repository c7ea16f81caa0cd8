"""Findings about Grid Engine's scheduler, sched_conf(5), and the transfer host's part of sge_conf(5).

A host's load sensor list replaces the global list, so the global list is copied. An execd that started without
a host configuration never reads a new one (tried on 8.1.9); its restart leaves its jobs running.
"""

import re
import shlex
from dataclasses import replace
from itertools import chain
from itertools import count as counting

from gridbridge.model.fixed_paths import METHODS
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.qconf_attribute_parser import parse_qconf_pairs, parse_qconf_words
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferSetupSituation,
)
from gridbridge.model.site.site_check_facts import PollerProcessFacts
from gridbridge.model.transfer.transfer_queue_load_values import PENDING, UP, load_value_complex_attribute

QUEUE_ORDER, BY_NUMBER = "queue_sort_method", "seqno"
DEFAULT_DECAYS = ("0:7:30", "00:07:30")  # Grid Engine's default, meant for np_load_avg
NO_DECAYS = ("0:0:0", "00:00:00")  # values that switch load adjustments off
PENDING_VALUE = re.compile("gb_.*_pending")
DECAY = "0:0:30"  # about the time until load values include a newly transferred job


def sge_scheduler_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check the scheduler's queue order and load adjustments (damping).

    Without damping, Grid Engine fills a queue with jobs before the load sensor closes the queue.
    """
    order = _scheduler_setting_finding_at_home(situation, "queue order", QUEUE_ORDER, BY_NUMBER, FindingSeverity.BROKEN)
    if not situation.wanted.pending_limit:
        return (order,)
    return (order, _pending_load_adjustment_finding(situation), _load_adjustment_decay_finding(situation))


def _scheduler_setting_finding_at_home(
    situation: TransferSetupSituation, item: str, attribute: str, right: str, state: FindingSeverity, undo: bool = True
) -> CheckFinding:
    cell, actual = situation.wanted.home, situation.home.scheduler.get(attribute, "")
    return scheduler_setting_finding(item, cell, attribute, (actual, right), state, undo=undo)


def scheduler_setting_finding(
    item: str, cell: str, attribute: str, values: tuple[str, str], state: FindingSeverity, *, undo: bool
) -> CheckFinding:
    """Check a scheduler setting; `values` are the present value and the expected value."""
    actual, right = values
    edit = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=right)
    finding = CheckFinding.finding_by_condition(
        actual == right,
        item,
        f"{attribute} {actual}",
        f"{attribute} {right}, for the whole cluster",
        edit,
        is_warning=state is FindingSeverity.WARNING,
    )
    former = SharedSettingUndo(done=edit, undo=replace(edit, value=actual))
    return replace(finding, undo=(former,)) if undo and finding.mend else finding


def _pending_load_adjustment_finding(situation: TransferSetupSituation) -> CheckFinding:
    actual = right = situation.home.scheduler.get("job_load_adjustments", "NONE")
    own = load_value_complex_attribute(situation.wanted.remote, PENDING)
    thresholds = (parse_qconf_pairs(queue.get("load_thresholds", "")) for queue in situation.home.queues.values())
    names = (name for of_queue in thresholds for name in of_queue if PENDING_VALUE.fullmatch(name))
    for name in dict.fromkeys((own, *names)):
        if name not in parse_qconf_pairs(actual):
            right = f"{name}=1" if right.upper() == "NONE" else f"{right},{name}=1"
    return _scheduler_setting_finding_at_home(
        situation, "damping", "job_load_adjustments", right, FindingSeverity.WARNING, undo=False
    )


def _load_adjustment_decay_finding(situation: TransferSetupSituation) -> CheckFinding:
    """Check load_adjustment_decay_time; a value chosen by the site is kept."""
    actual = situation.home.scheduler.get("load_adjustment_decay_time", "")
    right = DECAY if actual in (*DEFAULT_DECAYS, *NO_DECAYS) else actual
    return _scheduler_setting_finding_at_home(
        situation, "damping time", "load_adjustment_decay_time", right, FindingSeverity.WARNING
    )


SENSOR = f"{METHODS}/sensor"
REPORT_S = 5  # the poller's default interval; more frequent reports would repeat old load values
SPARE_GROUPS = 20  # additional group ids, because ending jobs still hold ids
FIRST_GID, NOGROUP = 20000, 65534
VALUES = "load values"


def transfer_host_sge_conf_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check the transfer host's group ids, load report time and load sensor."""
    host = situation.wanted.host
    if host not in situation.home.exec_hosts:
        actual = f"no execution host of {situation.wanted.home}"
        hint = f"start sge_execd on {host}, or give another --host"
        return (CheckFinding.fault_finding(f"host {host}", actual, "an execution host", hint=hint),)
    return (_gid_range_finding(situation), _load_report_time_finding(situation), _load_sensor_finding(situation))


def _load_sensor_finding(situation: TransferSetupSituation) -> CheckFinding:
    present = [
        sensor
        for sensor in situation.home.effective_sge_conf_value("load_sensor").split(",")
        if parse_qconf_words(sensor)
    ]
    if SENSOR in present:
        return CheckFinding.ok_finding("load sensor", ",".join(present))
    right = ",".join([*present, SENSOR])
    return _transfer_host_setting_finding(situation, "load sensor", "load_sensor", ",".join(present) or "none", right)


def _transfer_host_setting_finding(
    situation: TransferSetupSituation, item: str, attribute: str, actual: str, right: str
) -> CheckFinding:
    request = situation.wanted
    verb, former = SetupEditVerb.SET_HOST, (situation.home.host or {}).get(attribute)
    edit = SetupEdit(verb=verb, cell=request.home, name=request.host, attribute=attribute, value=right)
    undo = replace(edit, verb=SetupEditVerb.DROP_HOST if former is None else verb, value=former or "")
    restart = (restart_execd_edit(situation),) if situation.home.host is None and situation.execd else ()
    finding = CheckFinding.fault_finding(item, f"{attribute} {actual}", f"{attribute} {right}", edit, *restart)
    return replace(finding, undo=(SharedSettingUndo(done=edit, undo=undo),))


def _load_report_time_finding(situation: TransferSetupSituation) -> CheckFinding:
    actual, item = situation.home.effective_sge_conf_value("load_report_time"), "load report time"
    if _parse_grid_engine_duration_s(actual) <= REPORT_S:
        return CheckFinding.ok_finding(item, actual)
    return _transfer_host_setting_finding(situation, item, "load_report_time", actual, f"00:00:{REPORT_S:02}")


def _parse_grid_engine_duration_s(text: str) -> int:
    parts = [int(part) for part in text.split(":") if part.isdigit()]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


def _gid_range_finding(situation: TransferSetupSituation) -> CheckFinding:
    actual, item = situation.home.effective_sge_conf_value("gid_range"), "gid_range"
    slots = situation.wanted.slots + situation.other_slots
    free = len(_parse_gid_range(actual) - situation.gids)
    if free >= slots + SPARE_GROUPS:
        return CheckFinding.ok_finding(item, f"{actual}, {free} free")
    right = widen_gid_range(actual, slots + SPARE_GROUPS, situation.gids)
    few = f"{actual}: {free} free ids for {number_with_noun(slots, 'slot')} of all queues on the host"
    return _transfer_host_setting_finding(situation, item, "gid_range", few, right)


def _parse_gid_range(text: str) -> set[int]:
    """Parse a gid_range such as `20000-20100,30000-30010`."""
    gids: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit() and (last or first).strip().isdigit():
            gids.update(range(int(first), int(last or first) + 1))
    return gids


def widen_gid_range(actual: str, needed: int, used: frozenset[int]) -> str:
    """Return a gid_range with `needed` free ids: the present range extended, or the first free range."""
    present = _parse_gid_range(actual)
    starts = [min(present)] if present else []
    gids = used | {NOGROUP}
    blocks = (range(first, first + needed) for first in chain(starts, counting(FIRST_GID, 100)))
    free = next(block for block in blocks if not any(gid in block for gid in gids))
    return f"{free[0]}-{free[-1]}"


def unreported_load_value_findings(
    situation: TransferSetupSituation, poller: PollerProcessFacts
) -> tuple[CheckFinding, ...]:
    """Check that the load sensor's values reach the qmaster within two load report times of execd's start.

    If the poller publishes no values, the poller uses an older gridbridge.toml, and a restart of execd does not help.
    """
    if SENSOR not in situation.home.effective_sge_conf_value("load_sensor").split(","):
        return ()
    values = parse_qconf_pairs(situation.home.exec_hosts[situation.wanted.host].get("load_values", ""))
    name = load_value_complex_attribute(situation.wanted.remote, UP)
    if name in values:
        return (CheckFinding.ok_finding(VALUES, f"{name}={values[name]}"),)
    return (_unreported_load_value_finding(situation, poller, name),)


def _unreported_load_value_finding(
    situation: TransferSetupSituation, poller: PollerProcessFacts, value: str
) -> CheckFinding:
    if value not in poller.values:
        right = "published after the service has read this gridbridge.toml"
        return CheckFinding.warning_finding(VALUES, f"the service publishes no {value}: the queue is closed", right)
    if late := _why_load_values_are_late(situation, poller):
        right = f"{value} is reported within {_load_value_delay_s(situation)} s"
        return CheckFinding.warning_finding(VALUES, f"none yet: {late}", right)
    actual = f"{situation.wanted.host} reports no {value}: the queue is closed"
    right = "reported; execd has to be started after its first load_sensor was set"
    if situation.execd:
        return CheckFinding.fault_finding(VALUES, actual, right, restart_execd_edit(situation))
    return CheckFinding.fault_finding(VALUES, actual, right, hint="start sge_execd")


def _why_load_values_are_late(situation: TransferSetupSituation, poller: PollerProcessFacts) -> str:
    patience_s, configuration = _load_value_delay_s(situation), poller.configuration
    if situation.execd and situation.execd.age_s < patience_s:
        return f"execd was started {situation.execd.age_s:.0f} s ago"
    if configuration and configuration.for_s < patience_s:
        return f"the service has used this gridbridge.toml for {configuration.for_s:.0f} s"
    return ""


def _load_value_delay_s(situation: TransferSetupSituation) -> int:
    return 2 * _parse_grid_engine_duration_s(situation.home.effective_sge_conf_value("load_report_time"))


def restart_execd_edit(situation: TransferSetupSituation) -> SetupEdit:
    """Return the edit that restarts execd; running jobs continue (sge_execd(8))."""
    execd = situation.execd
    assert execd
    stop = f"kill {execd.pid}; while kill -0 {execd.pid} 2>/dev/null; do sleep 0.2; done"
    by_hand = f"{stop}; {shlex.quote(execd.program)}"
    line = f"systemctl restart {shlex.quote(execd.unit)}" if execd.unit else by_hand
    name = f"sge_execd on {situation.wanted.host}; its jobs continue"
    return SetupEdit(verb=SetupEditVerb.RESTART, cell=situation.wanted.home, name=name, value=line)
