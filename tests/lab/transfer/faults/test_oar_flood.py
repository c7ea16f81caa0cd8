"""Thousands of held jobs of one person at gamma do not close its queue to other people."""

import time
from collections.abc import Iterator

import pytest

from gridbridge.batch.oar import oar_server_query_commands
from gridbridge.batch.oar.oar_output_parser import split_combined_oar_answer
from gridbridge.model.transfer_route import OarServerAccessSettings
from tests.lab.gamma import FAR, Gamma
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

HELD, BOB = 6000, "bo_gamma"
LIMIT_S = 15  # of a question
MORE_S = 5  # on a busy machine; 0.2 on an idle one, where showing each whole takes 20
END = f"UPDATE jobs SET state = 'Error' WHERE job_user = '{BOB}' AND state = 'Hold'"


@pytest.fixture(scope="module")
def gamma(grid: Grid, open_to_gamma: None) -> Iterator[Gamma]:
    """Return gamma with its queue open.

    Afterwards delete the held jobs in OAR's database: oardel takes minutes.
    """
    far = Gamma(grid)
    far.until_open()
    yield far
    grid.sh(FAR, f'cd / && su postgres -c "psql -q oar -c \\"{END}\\""')
    far.clear()


def took_s(gamma: Gamma, question: tuple[str, ...]) -> float:
    """Return the shortest duration of three runs of a query."""
    return min(_once_s(gamma, question) for _ in range(3))


def _once_s(gamma: Gamma, question: tuple[str, ...]) -> float:
    began = time.monotonic()
    told = gamma.grid.on(FAR, *question, user="gb_gamma").out
    split_combined_oar_answer(told.encode())
    return time.monotonic() - began


def test_six_thousand_held_jobs_of_one_person_s_close_no_queue(gamma: Gamma) -> None:
    server = OarServerAccessSettings(timeout_s=LIMIT_S)
    asked = (
        oar_server_query_commands.oar_status_query_argv(server, (), ()),
        oar_server_query_commands.oar_demand_query_argv(server),
    )
    before = [took_s(gamma, each) for each in asked]
    gamma.grid.sh(FAR, f"oarsub --hold --array {HELD} -n gb.alpha.1.0.1 'sleep 1'", user=BOB)
    after = [took_s(gamma, each) for each in asked]
    job = gamma.submit("exit 3\n")

    assert "3" == gamma.grid.accounting_of_end(job, 120)["exit_status"]
    grown = [now - then for now, then in zip(after, before, strict=True)]
    assert max(grown) < MORE_S, (before, after)
