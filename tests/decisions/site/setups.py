"""Builders for set-up tests: a well configured cell, and changes to the cell."""

from collections.abc import Mapping
from dataclasses import replace

from gridbridge.decisions.site.transfer_queue_findings import transfer_queue_attributes
from gridbridge.decisions.site.transfer_queue_prerequisites import complexes_of_transfer_queue
from gridbridge.model.qconf_attribute_parser import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import (
    CellQconfSettings,
    QconfComplexRow,
    RunningExecd,
    TransferQueuePlan,
    TransferSetupSituation,
)

SENSOR = "/opt/gridbridge/sge-methods/sensor"
WANTED = TransferQueuePlan(home="alpha", remote="beta", queue="transfer-beta", host="tee", slots=10, pending_limit=4)


def a_cell(
    *,
    complexes: Mapping[str, QconfComplexRow] | None = None,
    queues: Mapping[str, QconfSettings] | None = None,
    environments: Mapping[str, QconfSettings] | None = None,
    scheduler: QconfSettings | None = None,
    common: QconfSettings | None = None,
    host: QconfSettings | None = None,
    exec_hosts: Mapping[str, QconfSettings] | None = None,
    operators: tuple[str, ...] = (),
    submit_hosts: tuple[str, ...] = ("tee",),
    admin_hosts: tuple[str, ...] = ("tee",),
) -> CellQconfSettings:
    """Return a cell before any set-up."""
    usual = {"load_sensor": "none", "load_report_time": "00:00:40", "gid_range": "20000-20100"}
    return CellQconfSettings(
        master="master",
        complexes=complexes or {},
        queues={"all.q": {"seq_no": "0", "complex_values": "NONE"}, **(queues or {})},
        environments=environments or {},
        scheduler={
            "queue_sort_method": "load",
            "job_load_adjustments": "np_load_avg=0.50",
            "load_adjustment_decay_time": "0:7:30",
            **(scheduler or {}),
        },
        common={**usual, **(common or {})},
        host=host,
        exec_hosts={"global": {}, "tee": {}} if exec_hosts is None else exec_hosts,
        operators=operators,
        managers=("root",),
        submit_hosts=submit_hosts,
        admin_hosts=admin_hosts,
    )


def a_situation(
    home: CellQconfSettings | None = None, away: CellQconfSettings | None = None, wanted: TransferQueuePlan = WANTED
) -> TransferSetupSituation:
    return TransferSetupSituation(
        wanted=wanted,
        home=home or a_cell(),
        away=away or a_cell(),
        execd=RunningExecd(pid=7, program="/usr/sbin/sge_execd"),
    )


def a_ready_situation(wanted: TransferQueuePlan = WANTED, **queue: str) -> TransferSetupSituation:
    right = {**transfer_queue_attributes(a_situation(wanted=wanted)), "pe_list": "NONE"}
    transfer = {**right, "complex_values": "remote=TRUE", **queue}
    home = a_cell(
        complexes={row.name: row for row in complexes_of_transfer_queue(wanted)},
        queues={"all.q": {"seq_no": "0", "complex_values": "remote=FALSE"}, wanted.queue: transfer},
        scheduler={
            "queue_sort_method": "seqno",
            "job_load_adjustments": "np_load_avg=0.50,gb_beta_pending=1",
            "load_adjustment_decay_time": "0:0:30",
        },
        host={"load_sensor": SENSOR, "load_report_time": "00:00:05"},
        operators=("gridbridge",),
    )
    return a_situation(home, a_cell(operators=("gridbridge",)), wanted)


def at_home(situation: TransferSetupSituation, **changes: object) -> TransferSetupSituation:
    return replace(situation, home=replace(situation.home, **changes))  # type: ignore[arg-type]
