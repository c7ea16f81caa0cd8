"""Tests of preemptible tasks, best-effort queues and pending counts in a cell."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.gridengine import sge_command_line_builders
from gridbridge.batch.gridengine.cell_object_queries import parse_hosts_of_consumables, query_queue_rerun_settings
from gridbridge.batch.gridengine.job_submission_and_control import submit_held_job
from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot, parse_repaired_xml
from gridbridge.decisions.site.besteffort_findings import RULE, RULE_NAME
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.batch.gridengine.cells import cell_of_scripts, fake_cell
from tests.batch.gridengine.test_qconf import make
from tests.builders.qstat import job_list, job_row, queue_row, resource

WISH = JobRequest(hard=(("h_rt", "60"),), types=("besteffort",), targets="long.q")
SPEC = JobSpec(transfer="gc.alpha.1.1", request=WISH, tasks=3)
TRUE = resource("gb_besteffort", "1.000000")


@pytest.fixture(name="cell")
def _cell(tmp_path: Path) -> Iterator[GridEngineCellAccessSettings]:
    return cell_of_scripts(tmp_path, qsub=fake_cell("qsub_without_besteffort"))


def read(data: bytes, *uncounted: int) -> ClusterSnapshot:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return parse_cluster_snapshot(data, cluster="b", taken_at=now, uncounted=uncounted)


def test_a_preemptible_task_requests_only_best_effort_queues(cell: GridEngineCellAccessSettings) -> None:
    words = sge_command_line_builders.submit_held_job_argv(cell, SPEC)

    assert "-hard -l gb_besteffort=true" in " ".join(words)
    assert "-q" not in words


def test_without_best_effort_queues_a_preemptible_task_gets_lowest_priority(cell: GridEngineCellAccessSettings) -> None:
    answer = submit_held_job(cell, SPEC)

    assert (answer.result, answer.remote_id) == (JobSubmissionOutcome.ACCEPTED, "12")
    first, second = Path(cell.binaries, "asked").read_text().splitlines()
    assert "gb_besteffort=true" in first
    assert "-q long.q" in second
    assert "-p -1023" in second
    assert "h_rt=60" in second


def test_free_best_effort_slots_are_counted_apart() -> None:
    queues = (
        *(queue_row("all.q@n1", 1, 2), queue_row("all.q@n2", 0, 2)),
        *(queue_row("gb-be1@n1", 0, 1, TRUE, state="S"), queue_row("gb-be2@n1", 1, 1, TRUE)),
        *(queue_row("gb-be1@n2", 0, 1, TRUE), queue_row("gb-be2@n2", 1, 1, TRUE)),
    )
    seen = read(job_list(queues=queues))

    assert (seen.free_slots, seen.besteffort_slots) == (3, 1)
    assert {one.queue_name for one in seen.queues if one.is_besteffort} == {"gb-be1", "gb-be2"}


def test_a_cell_without_best_effort_queues_has_no_best_effort_count() -> None:
    assert read(job_list(queues=[queue_row("all.q@n1", 0, 2)])).besteffort_slots is None
    assert read(job_list(queues=[queue_row("gb-be1@n1", 1, 1, TRUE)])).besteffort_slots == 0


def test_campaign_tasks_do_not_count_as_pending() -> None:
    """Pending tasks would close the transfer queues to the cluster."""
    data = job_list(job_row(7, tasks="1-9:1"), job_row(8, tasks="1-4:1"))

    assert (read(data).pending, read(data, 7).pending) == (13, 4)


def test_consumables_of_hosts_and_cell_are_found_but_not_of_queues() -> None:
    values = ("slots hc n1", "slots qc n2", "lic gc n1", "lic gc n2", "other hc n1")
    rows = [queue_row(f"all.q@{host}", 0, 2, resource(name, 1, kind)) for name, kind, host in map(str.split, values)]

    found = parse_repaired_xml(job_list(queues=rows), partial(parse_hosts_of_consumables, names=("slots", "lic")))

    assert found == {"slots": ("n1",), "lic": ("global",)}


def test_rerun_settings_omit_best_effort_and_excluded_queues(cell: GridEngineCellAccessSettings) -> None:
    shown = "".join(
        f"qname {name}\nrerun {rerun}\ncomplex_values {values}\n\n"
        for name, rerun, values in (
            ("all.q", "TRUE", "remote=FALSE"),
            ("gb-be1", "FALSE", "gb_besteffort=TRUE"),
            ("transfer-b", "TRUE", "remote=TRUE"),
        )
    )
    cell_of_scripts(Path(cell.binaries), qconf=f"cat <<'END'\n{shown}END")

    assert query_queue_rerun_settings(cell, ("transfer-b",)) == {"all.q": "TRUE"}


def test_a_quota_set_gets_the_exempting_rule_once_and_loses_it_again(cell: GridEngineCellAccessSettings) -> None:
    """Only the first matching rule of a quota set counts."""
    folder = Path(cell.binaries)
    cell_of_scripts(folder, qconf=fake_cell("qconf_of_quota"))
    (folder / "quota").write_text(fake_cell("quota"))
    exempt = SetupEdit(verb=SetupEditVerb.EXEMPT, name="q", attribute=RULE_NAME, value=RULE)

    for _ in range(2):
        make(exempt, cell)
        limits = [line.split() for line in (folder / "quota").read_text().splitlines()]
        assert [line[0] for line in limits].count("limit") == 3
        assert " ".join(limits[4]) == RULE
    make(SetupEdit(verb=SetupEditVerb.INCLUDE, name="q", attribute=RULE_NAME), cell)

    assert (folder / "quota").read_text() == fake_cell("quota")
