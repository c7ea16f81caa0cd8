"""Tests of a cell's limits on arrays in its global configuration (sge_conf(5))."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.status import query_array_limits
from gridbridge.errors import CommandFailed
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.batch.gridengine.cells import cell_of_scripts

CONF = """#global:
execd_spool_dir              /var/spool/gridengine/execd
max_aj_instances             {instances}
max_aj_tasks                 {tasks}
max_u_jobs                   {person}
max_jobs                     {everybody}
shell_start_mode             posix_compliant
"""


def cell(folder: Path, said: str, status: int = 0) -> GridEngineCellAccess:
    """Return a cell whose qconf prints `said` as the global configuration."""
    (folder / "said").write_text(said)
    return cell_of_scripts(folder, qconf=f'[ "$*" = -sconf ] || exit 9; cat {folder}/said; exit {status}')


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        ((2000, 75000, 0, 0), ClusterArrayLimits(tasks=2000)),
        ((0, 500, 10, 0), ClusterArrayLimits(tasks=500, of_person=10)),
        ((0, 0, 0, 9), ClusterArrayLimits(of_all=9)),
        (("none", "", "-1", "x"), ClusterArrayLimits()),
    ],
    ids=["usual", "small", "none of an array's", "odd"],
)
def test_an_array_limit_of_zero_means_no_limit(
    tmp_path: Path, told: tuple[object, ...], limits: ClusterArrayLimits
) -> None:
    """The smaller of an array's two limits counts."""
    words = dict(zip(("instances", "tasks", "person", "everybody"), told, strict=True))

    found = query_array_limits(cell(tmp_path, CONF.format(**words)))

    assert found == replace(limits, told_within_s=15.0)


@pytest.mark.parametrize(
    ("reporting", "seconds"),
    [
        ("accounting=true flush_time=00:00:10 accounting_flush_time=00:00:00", 0),
        ("accounting=true flush_time=00:01:10 joblog=false", 70),
        ("accounting=true accounting_flush_time=01:00:05", 3605),
        ("accounting=true accounting_flush_time=soon", 15),
        ("accounting=true", 15),
    ],
)
def test_accounting_flush_time_is_parsed_with_the_default_of_sge_conf(
    tmp_path: Path, reporting: str, seconds: float
) -> None:
    found = query_array_limits(cell(tmp_path, f"reporting_params   {reporting}\n"))

    assert found.told_within_s == seconds


def test_a_failed_qconf_is_not_taken_for_missing_limits(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        query_array_limits(cell(tmp_path, "", status=1))
