"""The `#$` lines of a script set the same values for a campaign as for qsub."""

import pytest

from gridbridge.campaigns.submission.campaigns_without_jdl import CampaignWithoutJdlOptions, campaign_of_job_script
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.submission.qsub_directive_parser import JobScriptParser, JobScriptRequest
from gridbridge.errors import ConfigError
from tests.campaigns.submission import qsub_lines
from tests.campaigns.submission.qsub_lines import REFUSED, TAKEN

AT = CampaignWithoutJdlOptions(clusters=("beta",), by_resource=frozenset({"beta"}))
YEAR_S = 31_536_000


def script(lines: str) -> str:
    return f"#!/bin/sh\n{lines}\necho\n"


def script_campaign(lines: str) -> ParsedJdl:
    return campaign_of_job_script("job.sh", script(lines), (), AT)


def read(lines: str) -> JobScriptParser:
    found = JobScriptParser("job.sh")
    found.parse_directives(script(lines))
    return found


def shown(asked: JobScriptRequest) -> dict[str, str]:
    limit = [f"h_rt={asked.walltime_s}"] * bool(asked.walltime_s)
    array = asked.array
    found = {
        qsub_lines.NAME: asked.name,
        qsub_lines.JOIN: "y" * asked.is_joined,
        qsub_lines.TASKS: f"{array[0]}-{array.stop - 1}:{array.step}" if array else "",
        qsub_lines.OUT: asked.output,
        qsub_lines.ERR: asked.error,
        qsub_lines.SHELL: asked.shell,
        qsub_lines.HARD: ",".join(limit + [each.text for each in asked.resources]),
        qsub_lines.VARIABLES: ",".join(f"{key}={value}" for key, value in asked.variables.items()),
        qsub_lines.WORK: asked.folder or "",
    }
    return {key: value for key, value in found.items() if value}


@pytest.mark.parametrize("lines", TAKEN)
def test_a_directive_line_is_parsed_as_by_qsub(lines: str) -> None:
    found = read(lines)

    assert (found.problems, shown(found.asked)) == ([], TAKEN[lines])
    assert script_campaign(lines).jdl.clusters["beta"].exec_file


@pytest.mark.parametrize("options", REFUSED)
def test_a_directive_that_qsub_refuses_is_refused(options: str) -> None:
    with pytest.raises(ConfigError, match=r"\Ajob\.sh:2: "):
        script_campaign(f"#$ {options}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("-b y", "campaigns do not support this yet; expected a script without it"),
        ("-ar 5", "campaigns do not support this yet; expected a script without it"),
        ("-@ file", "campaigns do not support this yet; expected a script without it"),
        ("-hold_jid x", "campaigns do not support this yet; expected gridsub --after CAMPAIGN:ended"),
        ("-hold_jid_ad x", "campaigns do not support this yet; expected gridsub --after CAMPAIGN:same"),
        ("-i /etc/motd", "campaigns do not support this yet; expected /dev/null, or a script without it"),
        ("-o host:/x", "this is a path for one host only; expected a path without HOST:"),
        ("-v A-B=2", "this is not the name of a shell variable; expected NAME=VALUE,..."),
        ("-wd /home/$USER", "$USER is not expanded in a folder's path; expected /FOLDER, ~/FOLDER or a folder"),
    ],
)
def test_a_directive_unsupported_by_campaigns_is_refused_with_the_reason(options: str, problem: str) -> None:
    """Qsub accepts the directive, but a campaign task would behave differently."""
    assert read(f"#$ {options}").problems == [f"job.sh:2: {options}: {problem}"]


@pytest.mark.parametrize(
    "options",
    [
        *("-sc site=x", "-pty n", "-binding pe linear:2", "-C ''", "-S n1:/bin/sh"),
        *("-l hostname=n1", "-l h=n1", "-l h=!n1&!n2", "-l q=all.q"),
    ],
)
def test_a_directive_without_effect_causes_a_warning(options: str) -> None:
    said = options.replace("'", "")

    assert read(f"#$ {options}").warnings == [f"job.sh:2: {said}: changes nothing yet"]


@pytest.mark.parametrize(
    ("slots", "least"), [("4-16", 4), ("16-4", 4), ("4-", 4), ("-4", 1), ("8,2-4", 2), ("2:8", 2), ("1", 1), ("04", 4)]
)
def test_a_task_gets_the_smallest_number_of_a_slot_range(slots: str, least: int) -> None:
    found = read(f"#$ -pe smp {slots}")

    unit = "slot" if least == 1 else "slots"
    note = f"job.sh:2: -pe smp {slots}: each task gets the smallest number, {least} {unit}"
    assert (found.asked.environment, found.asked.slots) == ("smp", least)
    assert found.warnings == ([] if slots.isdigit() else [note])


@pytest.mark.parametrize("word", ["INFINITY", "infinity"])
@pytest.mark.parametrize("name", ["h_rt", "s_rt"])
def test_an_infinite_time_limit_gives_the_longest_walltime(name: str, word: str) -> None:
    said = script_campaign(f"#$ -l {name}={word}")

    assert said.jdl.clusters["beta"].walltime_s == YEAR_S
    note = f"job.sh:2: -l {name}={word}: each task gets the longest walltime, a year"
    assert said.warnings == (note,)


def test_variables_of_grid_engine_override_the_option_v() -> None:
    said = script_campaign("#$ -t 1-2 -v SGE_TASK_ID=7,JOB_NAME=x,A=1")

    line = said.jdl.clusters["beta"].exec_file
    assert "A='1'" in line
    assert line.index("SGE_TASK_ID='7'") < line.index('SGE_TASK_ID="$1"')
    assert "JOB_NAME='x'" not in line


@pytest.mark.parametrize(("path", "directory"), [("~/a", "$HOME/a"), ("$HOME/a", "$HOME/a"), ("/tmp", "/tmp")])
def test_a_working_directory_below_the_home_starts_at_the_home_of_the_cluster(path: str, directory: str) -> None:
    assert script_campaign(f"#$ -wd {path}").jdl.clusters["beta"].exec_directory == directory
