"""The demo's queries of the lab, and how the demo reads the answers."""

import json
from types import ModuleType

import pytest
from pytest_subprocess import FakeProcess

from tests.docs.console import lab_module

QSTAT = """\
job-ID  prior   name       user         state submit/start at     queue          slots ja-task-ID
-------------------------------------------------------------------------------------------------
      7 0.55500 flood1     alice        r     11/22/2026 13:00:00 all.q@alpha-n1     1
      8 0.55500 flood2     alice        Rq    11/22/2026 13:00:00                    1
"""
QACCT = f"""\
{"=" * 62}
hostname     beta-n1
exit_status  25
{"=" * 62}
hostname     beta-n2
account      gb.alpha.7.0.2
exit_status  3
"""
TOLD = {
    "tasks": [
        {
            "remote": [
                {"cluster": "gamma", "exit_status": 1, "host": "gamma-n1", "transfer": "first"},
                {"cluster": "delta", "exit_status": 2, "host": "delta-n1", "transfer": "second"},
                {"cluster": "gamma", "exit_status": 3, "host": "gamma-n2", "transfer": "third"},
            ]
        }
    ]
}


@pytest.fixture(scope="module")
def grids() -> ModuleType:
    return lab_module("grids")


def answers(fp: FakeProcess, grids: ModuleType, text: str) -> None:
    """Replace the lab's alpha by one that gives these answers to every command of alice."""
    fp.register([grids.LAB, "on", "alpha-master", fp.any()], stdout=text)


def typed(fp: FakeProcess) -> str:
    (call,) = fp.calls
    return str(list(call)[-1])


def test_a_look_reads_both_lists(fp: FakeProcess, grids: ModuleType) -> None:
    answers(fp, grids, f'{QSTAT}===\n{{"alarm": ""}}')
    found, report = grids.Lab().look()

    assert {job: (row.queue, row.is_put_back) for job, row in found.items()} == {
        "7": ("all.q@alpha-n1", False),
        "8": ("", True),
    }
    assert report == {"alarm": ""}


def test_a_silent_gridbridge_is_an_alarm(fp: FakeProcess, grids: ModuleType) -> None:
    answers(fp, grids, "===\n")

    assert grids.Lab().look()[1]["alarm"] == "gridbridge status fails"


def test_of_several_runs_at_beta_the_last_counts(fp: FakeProcess, grids: ModuleType) -> None:
    answers(fp, grids, QACCT)
    record = grids.Lab().remote_record("7", "beta", "41")

    assert record == {"hostname": "beta-n2", "account": "gb.alpha.7.0.2", "exit_status": "3"}
    assert "SGE_CELL=beta" in typed(fp)
    assert "qacct -j 41" in typed(fp)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ("gamma", {"exit_status": "3", "hostname": "gamma-n2", "account": "third"}),
        ("delta", {"exit_status": "2", "hostname": "delta-n1", "account": "second"}),
        ("epsilon", {}),
    ],
)
def test_of_other_clusters_qacct_remote_is_asked(
    fp: FakeProcess, grids: ModuleType, cluster: str, expected: dict[str, str]
) -> None:
    answers(fp, grids, json.dumps(TOLD))

    assert grids.Lab().remote_record("7", cluster, "41") == expected
    assert "qacct_remote -j 7 --json" in typed(fp)


def test_the_demo_acts_on_a_job_by_ordinary_commands(fp: FakeProcess, grids: ModuleType) -> None:
    answers(fp, grids, "")
    grids.Lab().do("suspend", "7")

    assert typed(fp) == "qmod -sj 7"
