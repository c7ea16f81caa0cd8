"""Campaigns without a JDL run the typed command, and never execute a number or line."""

import os
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask, write_campaign_array_script
from gridbridge.campaigns.submission.campaigns_without_jdl import (
    CampaignWithoutJdlOptions,
    campaign_of_job_script,
    campaign_with_task_per_line,
    campaign_with_task_per_number,
)
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import CommandLineMistake, ConfigError
from gridbridge.model.campaigns.campaign_file_and_array_names import split_task_parameters

AT = CampaignWithoutJdlOptions(clusters=("beta", "gamma"))
KNOWN = replace(AT, by_resource=frozenset({"beta"}))  # beta is a Grid Engine cluster
HOSTILE = [
    "plain",
    "two words",
    "it's $HOME `touch evil` $(touch evil)",
    "; touch evil; #",
    '"; touch evil; "',
    "' ; touch evil ; '",
    "-n --help",
    "a\\",
    "* ? [a-z] ~ {} {}",
    "| & > evil < /etc/passwd",
    "%s %n \\0 ünïcödé \x1b[31m",
    "SELECT 1; DROP TABLE campaigns; --",
]


def script_campaign(text: str, options: CampaignWithoutJdlOptions = AT) -> ParsedJdl:
    return campaign_of_job_script("job.sh", text, (), options)


def number_campaign(options: CampaignWithoutJdlOptions, resources: tuple[str, ...]) -> ParsedJdl:
    return campaign_with_task_per_number("1-2", ("x",), replace(options, resources=resources))


def run(said: ParsedJdl, folder: Path, place: int, system: str = "sge") -> str:
    tasks = tuple(CampaignArrayScriptTask(n, 1, split_task_parameters(line)) for n, line in enumerate(said.parameters))
    known = {"campaign": "7", "user": "alice", "cluster": "beta", "slots": "2", "walltime": "1:0:0"}
    wish = said.jdl.clusters["beta"]
    known |= {"walltime_s": "3600", "directory": wish.exec_directory, "exec": wish.exec_file}
    of_oar = {"OAR_ARRAY_INDEX": str(place), "OAR_JOB_ID": "32"}
    env = {"SGE_TASK_ID": str(place), "JOB_ID": "31"} if system == "sge" else of_oar
    env |= {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    script = write_campaign_array_script(known, tasks)
    subprocess.run(("sh", "-s"), input=script, env=env, cwd=folder, check=False)
    return (folder / f"campaign.7/{place - 1}.1.out").read_text()


def test_task_lines_are_read_from_a_socket_as_standard_input() -> None:
    """No program can open a socket by its name, nor another account's terminal or pipe."""
    theirs, ours = socket.socketpair()
    kept = os.dup(0)
    with theirs, ours:
        theirs.sendall(b"a b\n")
        theirs.shutdown(socket.SHUT_WR)
        os.dup2(ours.fileno(), 0)
        try:
            said = campaign_with_task_per_line("/dev/stdin", ("echo",), AT)
        finally:
            os.dup2(kept, 0)
            os.close(kept)

    assert len(said.parameters) == 1


def test_a_script_with_a_removed_working_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(CommandLineMistake):
        script_campaign("#$ -cwd\necho\n")
    assert script_campaign("#$ -wd /tmp\necho\n").parameters


@pytest.mark.parametrize("place", range(1, len(HOSTILE) + 1))
def test_a_line_is_one_argument_and_is_never_executed(tmp_path: Path, place: int) -> None:
    (tmp_path / "lines").write_text("".join(f"\n{line}\n" for line in HOSTILE))

    said = campaign_with_task_per_line(str(tmp_path / "lines"), ("printf", "%s|", "a{}b", "{}", "c"), AT)

    line = HOSTILE[place - 1]
    assert run(said, tmp_path, place) == f"a{line}b|{line}|c|"
    assert {path.name for path in tmp_path.iterdir()} == {"lines", "campaign.7"}


@pytest.mark.parametrize("word", HOSTILE)
def test_each_word_of_the_command_reaches_the_task_unchanged(tmp_path: Path, word: str) -> None:
    said = campaign_with_task_per_number("5-9:2", ("printf", "%s|", word), AT)

    number = "" if "{}" in word else "7|"
    assert said.parameters == ("5", "7", "9")
    assert run(said, tmp_path, 2) == f"{word.replace('{}', '7')}|{number}"


def test_a_repeated_line_reaches_the_task_unchanged(tmp_path: Path) -> None:
    """A task is named by its line number, so a repeated line needs no change."""
    (tmp_path / "lines").write_text("same\n\nsame\n")

    said = campaign_with_task_per_line(str(tmp_path / "lines"), ("echo",), AT)

    assert said.parameters == ("1 'same'", "3 'same'")
    assert run(said, tmp_path, 2) == "same\n"


def test_options_set_the_same_values_as_jdl_keys() -> None:
    typed = replace(AT, name="mine", after=("12", "reads:same"), on_failure="cancel")
    found = number_campaign(typed, ("nodes=2/core=2,walltime=0:10",)).jdl

    there = found.clusters["beta"]
    assert (found.name, there.slots, there.nodes, there.walltime_s) == ("mine", 4, 2, 600)
    assert (["12:ok", "reads:same"], "cancel") == ([of.jdl_text for of in found.after], found.on_failure)


JOB = """#!/bin/bash
#$ -N study -t 10-30:10 -tc 5
#$ -l h_rt=0:20:0,h_vmem=2G -pe smp 4
#$ -wd /tmp -j y
[[ "${BASH_VERSION}" ]] && echo "$SGE_TASK_ID of $SGE_TASK_FIRST-$SGE_TASK_LAST:$SGE_TASK_STEPSIZE"
cat <<'end'
$HOME `touch evil`
end
echo "$JOB_NAME $NSLOTS $JOB_ID $*" >&2
exit 3
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="the script is one of bash")
@pytest.mark.parametrize(("system", "job"), [("sge", "31"), ("oar", "32")])
def test_a_job_script_gets_the_variables_of_qsub(tmp_path: Path, system: str, job: str) -> None:
    """OAR sets the same variables; the task numbers are those of the script's own -t."""
    said = campaign_of_job_script("job.sh", JOB.replace("/tmp", str(tmp_path)), ("x y", "$z"), AT)

    wish = said.jdl.clusters["gamma"]
    assert (said.jdl.name, said.parameters, said.jdl.max_parallel) == ("study", ("10", "20", "30"), 5)
    assert (wish.walltime_s, wish.environment, wish.slots) == (1200, "smp", 4)
    assert wish.nodes == 1
    assert said.warnings == ("job.sh:3: -l h_vmem=2G: changes nothing at beta, gamma",)
    assert run(said, tmp_path, 2, system).splitlines() == [
        "20 of 10-30:10",
        "$HOME `touch evil`",
        f"study 2 {job} x y $z",
    ]


def test_resources_of_qsub_are_requested_only_at_grid_engine_clusters() -> None:
    """A warning names the other clusters and the soft requests."""
    lines = "#$ -l h_vmem=2G,gpu -soft -l fast=1\n#$ -hard -l arch=lx-*,hostname=n1,h_rt=600\n"
    said = script_campaign(lines, KNOWN)
    typed_in = number_campaign(KNOWN, ("h_vmem=2G,h_rt=600",))

    found = {name: one.properties for name, one in said.jdl.clusters.items()}
    assert found == {"beta": "h_vmem=2G,gpu=TRUE,arch=lx-*", "gamma": ""}
    assert said.warnings == (
        "job.sh:1: -l fast=1: changes nothing yet",
        "job.sh:2: -l hostname=n1: changes nothing yet",
        "job.sh:1: -l h_vmem=2G: changes nothing at gamma",
        "job.sh:1: -l gpu: changes nothing at gamma",
        "job.sh:2: -l arch=lx-*: changes nothing at gamma",
    )
    assert typed_in.jdl.clusters["beta"].properties == "h_vmem=2G"
    assert typed_in.warnings == ("the command line: -l h_vmem=2G: changes nothing at gamma",)


@pytest.mark.parametrize(
    ("asked", "meant"), [("walltme=1:0:0", "walltime"), ("cores=4", "core"), ("h_core=1G", ""), ("gpu=1", "")]
)
def test_a_resource_name_similar_to_an_oarsub_word_causes_a_warning(asked: str, meant: str) -> None:
    """A cluster reports an unknown resource only much later."""
    said = number_campaign(KNOWN, (asked,))

    told = f"-l {asked}: read as a resource of Grid Engine; did you mean {meant}?"
    assert (f"the command line: {told}" in said.warnings) is bool(meant)
    assert sum("read as a resource" in one for one in said.warnings) == bool(meant)


@pytest.mark.parametrize("text", ["a=$(id)", "=1", "-l=2", "a=1;b"])
def test_an_invalid_resource_request_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a resource; expected NAME=VALUE"):
        script_campaign(f"#$ -l '{text}'\n", KNOWN)


def test_output_is_written_to_the_files_of_the_script_options(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    options = "#$ -t 1-2 -N n -o :logs -e $HOME/e$(touch${IFS}evil).$TASK_ID -cwd"
    lines = f"{options}\necho out; echo err >&2\n"
    said = script_campaign(lines)
    wish = said.jdl.clusters["beta"]
    assert wish.exec_directory  # -cwd
    said = script_campaign(lines.replace("-cwd", f"-wd {tmp_path}"))

    run(said, tmp_path, 2)

    assert (tmp_path / "logs/n.o31.2").read_text() == "out\n"
    assert (tmp_path / "e$(touch${IFS}evil).2").read_text() == "err\n"


def test_output_file_names_have_task_numbers_only_for_arrays(tmp_path: Path) -> None:
    """Qsub names output files in this way."""
    (tmp_path / "logs").mkdir()
    lines = f"#$ -N n -o logs -e logs -wd {tmp_path}\necho out; echo err >&2\n"

    run(script_campaign(lines), tmp_path, 1)

    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"n.o31", "n.e31"}


def test_tasks_with_the_same_output_file_append_their_output(tmp_path: Path) -> None:
    """Jobs of qsub append too."""
    lines = f"#$ -t 1-2 -o both -j y -wd {tmp_path}\necho $SGE_TASK_ID\n"
    said = script_campaign(lines)

    for place in (2, 1):
        run(said, tmp_path, place)

    assert (tmp_path / "both").read_text() == "2\n1\n"


@pytest.mark.parametrize("letter", ["o", "e"])
def test_an_output_file_that_cannot_be_opened_is_reported_with_its_option(tmp_path: Path, letter: str) -> None:
    lines = f"#$ -N n -{letter} none/its -wd {tmp_path}\ntouch begun\n"

    run(script_campaign(lines), tmp_path, 1)

    told = (tmp_path / "campaign.7/0.1.err").read_text().splitlines()[-1]
    right = "expected an existing folder of yours"
    assert told == f"gridbridge: -{letter} none/its: can't be opened; {right}"
    assert not (tmp_path / "begun").exists()


def test_a_script_without_an_array_is_a_campaign_of_one_task(tmp_path: Path) -> None:
    said = campaign_of_job_script("a/job.sh", 'echo "$SGE_TASK_ID $V"\n#$ -v V=1,W', (), AT)

    assert (said.jdl.name, said.parameters) == ("job.sh", ("1",))
    assert run(said, tmp_path, 1) == "undefined 1\n"
    first, second = (each.partition(";")[0] for each in said.warnings)
    assert first == "a/job.sh:2: -v W: changes nothing yet"
    assert second == "a/job.sh: each task gets a walltime of one hour"


def test_every_mistake_of_a_script_is_reported_with_its_line() -> None:
    """The words after an unknown option are ignored, because the number of its values is unknown."""
    text = """#$ -t 0-3 -tc x
#$ -hold_jid 12 -N name
#$ -q all.q -frobnicate y -N other
#$ -pe smp
#$ -l h_rt=soon -o host:/x -S ""
#$ -N a/b -r maybe -A
"""

    with pytest.raises(ConfigError) as told:
        script_campaign(text)

    assert [line.partition(";")[0] for line in str(told.value).splitlines()] == [
        "job.sh:1: -t 0-3: tasks and steps count from 1",
        "job.sh:1: -tc x: not a number from 0 to 9999999",
        "job.sh:2: -hold_jid 12: campaigns do not support this yet",
        "job.sh:3: -frobnicate: unknown option",
        "job.sh:4: -pe smp: the option's value is missing",
        "job.sh:5: -l h_rt=soon: 'soon' is no number, memory or time",
        "job.sh:5: -o host:/x: this is a path for one host only",
        "job.sh:5: -S : no path",
        "job.sh:6: -N a/b: qsub refuses this name",
        "job.sh:6: -r maybe: wrong form",
        "job.sh:6: -A: the option's value is missing",
    ]


@pytest.mark.parametrize(
    ("lines", "typed_in", "walltime_s", "idle"),
    [
        ("#$ -l h_rt=4:0:0,s_rt=3:55:0", (), 14_400, "job.sh:1: -l s_rt=3:55:0"),
        ("#$ -l s_rt=3:55:0\n#$ -l h_rt=4:0:0", (), 14_400, "job.sh:1: -l s_rt=3:55:0"),
        ("#$ -l s_rt=3:55:0", (), 14_100, ""),
        ("#$ -l s_rt=3:55:0", ("h_rt=600",), 600, "job.sh:1: -l s_rt=3:55:0"),
        ("#$ -l h_rt=600", ("s_rt=500",), 600, "the command line: -l s_rt=500"),
        ("", ("walltime=1:0:0,s_rt=500",), 3600, "the command line: -l s_rt=500"),
        ("", ("s_rt=500",), 500, ""),
        ("", ("h=n1", "h_rt=600"), 600, "the command line: -l h=n1"),
    ],
)
def test_a_soft_time_limit_is_the_walltime_only_without_a_hard_limit(
    lines: str, typed_in: tuple[str, ...], walltime_s: int, idle: str
) -> None:
    """Otherwise a task would lose the minutes in which the task saves its state."""
    said = script_campaign(f"{lines}\ntrue\n", replace(AT, resources=typed_in))

    assert said.jdl.clusters["beta"].walltime_s == walltime_s
    assert said.warnings == ((f"{idle}: changes nothing yet",) if idle else ())


def test_a_script_above_60000_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 60000 bytes"):
        script_campaign("x" * 60_001)
