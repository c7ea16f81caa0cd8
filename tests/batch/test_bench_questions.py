"""Tests of the benchmark's list of queries to clusters."""

import re
import shlex

import pytest

from bench.questions import QUESTIONS
from gridbridge.batch.gridengine import sge_command_line_builders as gridengine
from gridbridge.batch.oar import oar_command_line_builders as oar
from gridbridge.batch.oar.oar_server_query_commands import oar_status_query_argv
from gridbridge.model.transfer_route import GridEngineCellAccessSettings, OarServerAccessSettings

CELL = GridEngineCellAccessSettings(
    root="/r", cell="beta", qmaster_port="1", execd_port="2", binaries="/usr/bin", timeout_s=9
)
PAST = len(oar.LIMITED) + 1  # index of the OAR program in a time-limited command line
SERVER = OarServerAccessSettings(binaries="/usr/bin", timeout_s=9, login=None)


def kinds_of(cluster: str, called: str) -> set[str]:
    patterns = {kind: pattern for (_, at, kind), (_, pattern) in QUESTIONS.items() if at == cluster}
    return {kind for kind, pattern in patterns.items() if re.match(pattern, called)}


@pytest.mark.parametrize(
    ("cluster", "what", "argv"),
    [
        ("beta", "living", gridengine.show_job_detail_argv(CELL, "7,8")),
        ("gamma", "living", oar.show_jobs_by_sql_argv(SERVER, oar.live_array_tasks_condition("7", "8"))),
        ("gamma", "ends", oar.show_jobs_by_sql_argv(SERVER, oar.ended_array_tasks_condition([(7, (1, 2))]))),
    ],
)
def test_the_benchmark_recognizes_queries_about_arrays(cluster: str, what: str, argv: tuple[str, ...]) -> None:
    begin = PAST if cluster == "gamma" else 0
    called = " ".join(argv[begin:]).removeprefix("/usr/bin/")

    assert kinds_of(cluster, called) == {what}


def test_the_benchmark_counts_each_status_query_of_oar_once() -> None:
    programs = shlex.split(oar_status_query_argv(SERVER, (7, 8), (9,))[2].replace("&&", "\n"), posix=True)
    starts = [index for index, word in enumerate(programs) if word.endswith("/oarstat")]
    ends = [*starts[1:], len(programs)]
    calls = [" ".join(programs[a:b]).removeprefix("/usr/bin/") for a, b in zip(starts, ends, strict=True)]

    assert [kinds_of("gamma", call) for call in calls] == [set(), set(), {"status"}]
