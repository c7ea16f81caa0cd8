"""Tests of the benchmark's list of queries to clusters."""

import pytest

from bench.questions import QUESTIONS
from gridbridge.batch.gridengine import client_commands as gridengine
from gridbridge.batch.oar import oar_commands as oar
from gridbridge.model.transfer_route import GridEngineCellAccess, OarServerAccess

CELL = GridEngineCellAccess(root="/r", cell="beta", qmaster_port="1", execd_port="2", binaries="/usr/bin", timeout_s=9)
PAST = len(oar.LIMITED) + 1  # index of the OAR program in a time-limited command line
SERVER = OarServerAccess(binaries="/usr/bin", timeout_s=9, login=None)


@pytest.mark.parametrize(
    ("cluster", "what", "argv"),
    [
        ("beta", "living", gridengine.show_job_detail_command(CELL, "7,8")),
        ("gamma", "living", oar.show_live_array_tasks_command(SERVER, "7", "8")),
        ("gamma", "ends", oar.show_ended_array_tasks_command(SERVER, [(7, (1, 2))])),
    ],
)
def test_the_benchmark_recognizes_queries_about_arrays(cluster: str, what: str, argv: tuple[str, ...]) -> None:
    begin = PAST if cluster == "gamma" else 0
    called = " ".join(argv[begin:]).removeprefix("/usr/bin/")

    of_cluster = [(asked, words) for (_, at, asked), (_, words) in QUESTIONS.items() if at == cluster]
    counted = {asked for asked, words in of_cluster if called.startswith(words)}
    assert counted == {what}
