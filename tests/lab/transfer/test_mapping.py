"""A mapping translates a job's requests for beta; untranslatable jobs stay home; `explain` shows both."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.away import reason, why
from tests.lab.configured import configured
from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, no_jobs_left

pytestmark = pytest.mark.lab

STAYS = "remote=false"  # not to be tried in beta's queue back

HOST = "alpha-master"
RULES = Path(__file__).with_name("mapping_rules.toml").read_text()


Explained = tuple[int, str, str]  # exit status, standard output, standard error


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    without = r"/^\[map\./,/^\[poller\]/{/^\[poller\]/!d}"  # the sample's own
    lines = RULES.strip().replace("\n", "\\n")
    with configured(grid, f"{without}\n$ a \\\\n{lines}"), no_jobs_left(grid):
        yield Outcomes(grid, mapped, refused, left_out)


def requested(grid: Grid, remote: str) -> str:
    told = grid.cell("beta", "qstat", "-j", remote).out
    return next(line for line in told.splitlines() if line.startswith("hard resource_list"))


def explain(grid: Grid, job: str, *options: str) -> Explained:
    done = grid.on(HOST, "gridbridge", "explain", job, "--to", "beta", *options, user="alice")
    return done.status, done.out, done.err


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    explained: Explained
    asked: str
    detail: str


def mapped(grid: Grid) -> Mapped:
    options = ("-h", "-l", "remote=true,mem_free=1.5G", "-pe", "smp", "2")
    job = grid.submit(*options, script="sleep 600\n")
    explained = explain(grid, job)
    grid.cell("alpha", "qalter", "-h", "U", job)
    remote = grid.remote_id(job)
    asked = requested(grid, remote)
    detail = grid.cell("beta", "qstat", "-j", remote).out
    grid.cell("alpha", "qdel", job)
    grid.until_gone(job)
    grid.until_gone(remote, "beta")
    return Mapped(explained=explained, asked=asked, detail=detail)


def test_a_job_asks_in_the_words_of_the_other_cluster_as_was_explained(came: Outcomes) -> None:
    job = came.of(mapped)
    status, said, _ = job.explained
    words = shlex.split(said)

    asked = set(job.asked.split(":", 1)[1].strip().split(","))
    assert asked == {"h_rt=7200", "s_data=3072M", STAYS}
    assert re.search(r"parallel environment: *mpi range: 2", job.detail)
    assert (status, words[0].rpartition("/")[2]) == (0, "qsub")
    assert "-pe mpi 2" in said
    explained = {words[n + 1] for n, word in enumerate(words) if word == "-l"}
    assert explained == {"h_rt=2:00:00", "s_data=3072M", STAYS}


@pytest.mark.usefixtures("came")
def test_a_script_is_explained_before_it_is_submitted(grid: Grid) -> None:
    """Directives of the script and options of qsub count; no job is submitted."""
    text = "#!/bin/sh\n#$ -pe smp 2-3 -l mem_free=1G\nexit 0\n"
    grid.sh(HOST, f"printf '%s' '{text}' >~/asked.sh", user="alice")
    before = grid.states()
    words = ("explain", "--to", "beta", "-l", "h_rt=60", "./asked.sh", "argument")
    done = grid.on(HOST, "gridbridge", *words, user="alice")
    refused = ("explain", "--to", "beta", "-l", "h_fsize=1G", "./asked.sh")
    why_not = grid.on(HOST, "gridbridge", *refused, user="alice")

    said = shlex.split(done.out.splitlines()[0])
    assert (done.status, done.err) == (0, "")
    assert "-pe mpi 3" in done.out
    asked = {said[n + 1] for n, word in enumerate(said) if word == "-l"}
    assert asked == {"h_rt=0:01:00", "s_data=2048M", STAYS}
    assert (why_not.status, why_not.out) == (1, "")
    assert "beta has no h_fsize: its disks are small" in why_not.err
    assert grid.states() == before


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    job: str
    explained: Explained
    reason: str
    remote_ids: tuple[str, ...]


def refused(grid: Grid) -> Refused:
    job = grid.submit("-h", "-l", "remote=true,h_fsize=1G", script="true\n")
    explained = explain(grid, job)
    grid.cell("alpha", "qalter", "-h", "U", job)
    told = reason(grid, job)
    ids = tuple(grid.remote_ids(job))
    return Refused(job=job, explained=explained, reason=told, remote_ids=ids)


def test_a_job_that_the_mapping_rejects_is_in_error_with_the_reason(came: Outcomes) -> None:
    one = came.of(refused)
    status, said, why_not = one.explained

    assert (status, said) == (1, "")
    assert why_not == (f"gridbridge: job {one.job} can't go to beta: beta has no h_fsize: its disks are small\n")
    assert "beta has no h_fsize: its disks are small" in one.reason
    assert one.remote_ids == ()


def left_out(grid: Grid) -> tuple[str, str]:
    """Return the messages about a job with a soft request, and its requests at beta."""
    job = grid.transfer("-soft", "-l", "h_fsize=1G", script="sleep 600\n")
    remote = grid.remote_id(job)
    grid.until(lambda: "left out" in why(grid, job), "the note")
    return why(grid, job), requested(grid, remote)


def test_a_soft_request_that_can_not_be_met_is_left_out_and_told(came: Outcomes) -> None:
    told, asked = came.of(left_out)

    assert "soft request h_fsize=1G left out: beta has no h_fsize: its disks are small" in told
    assert asked.split() == ["hard", "resource_list:", f"h_rt=7200,{STAYS}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "--to", "beta"), "neither a job id nor a valid command line of qsub: Unable to read script"),
        (("--to", "beta", "--", "-clear", "-b", "y", "true"), "-clear: not allowed with -verify"),
        (("--to", "beta", "--", "-pe", "smp"), "neither a job id nor a valid command line of qsub"),
        (("999999", "--to", "beta"), "the job does not exist"),
        (("1", "--to", "alpha"), "no transfer queue leads to 'alpha'; expected one of: beta"),
        (("1",), "no --to; expected --to with beta or delta or gamma"),
    ],
)
def test_a_wrong_explain_command_gets_an_error_of_one_line(grid: Grid, arguments: tuple[str, ...], words: str) -> None:
    done = grid.on(HOST, "gridbridge", "explain", *arguments, user="alice")

    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert words in done.err
