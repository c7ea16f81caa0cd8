"""Each mistake of a campaign is one line with the location, the mistake and the expected value."""

import json
from pathlib import Path

import pytest

from gridbridge.campaigns.cli.gridsub_campaign_source import looks_like_jdl
from gridbridge.campaigns.submission import jdl_writer_and_task_files
from gridbridge.campaigns.submission.campaigns_without_jdl import (
    CampaignWithoutJdlOptions,
    campaign_of_job_script,
    campaign_with_task_per_line,
    campaign_with_task_per_number,
)
from gridbridge.errors import CommandLineMistake, ConfigError
from tests.campaigns.submission.jdl_builder import PLAIN, jdl_text, mistakes_of_jdl, wrong_with

YEAR = 'expected "H", "H:M" or "H:M:S", from "0:0:1" to "8760:0:0" (a year)'
COMMAND = "expected a command line"
LAYOUT = (
    "expected /nodes=N/core=M, /core=M or /nodes=N/cpu=C/core=M, as oarsub -l takes it, with 1 to 100000 slots in all"
)
TEXTS = 'expected ["FIRST TASK", "SECOND TASK"]'
AT = CampaignWithoutJdlOptions(clusters=("beta", "gamma"))


def told_of(said: object, known: tuple[str, ...] = ()) -> list[str]:
    return mistakes_of_jdl(said if isinstance(said, str) else json.dumps(said), known=known)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("walltime", "1h", f"not a time; {YEAR}"),
        ("walltime", "8761", f"out of range; {YEAR}"),
        ("max_jobs", 0, "out of range; expected a number from 1 to 10000000"),
        ("first_tasks", 0, "out of range; expected a number from 1 to 10000000"),
        ("max_parallel", 0, "out of range; expected a number from 1 to 10000000"),
        ("resources", "/core=0", f"out of range; {LAYOUT}"),
        ("resources", "/nodes=1", f"the number of slots is unknown without /core=M at the end; {LAYOUT}"),
        ("idempotent", "yes", "not a boolean; expected true or false"),
        ("exec_file", 3, f"wrong form; {COMMAND}"),
    ],
)
def test_a_wrong_value_is_reported_once_with_the_expected_value(key: str, value: object, problem: str) -> None:
    """A wrong global value is one mistake, however many clusters use the value."""
    known = PLAIN | {"clusters": {"beta": {}, "gamma": {}}, key: value}

    assert told_of(known) == [f"n:1: {key} = {json.dumps(value)}: {problem}"]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["a", "", " ", "b"], "entries 2, 3 are empty"),
        (["a", "\t"], "entry 2 is empty"),
        ([""] * 14, "entries 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4 more are empty"),
    ],
)
def test_empty_entries_of_params_are_reported_with_their_positions(entries: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=rf": {problem}; expected \["):
        jdl_writer_and_task_files.parse_added_tasks_json("-J", json.dumps(entries))

    (told,) = told_of(jdl_text("nb_jobs", params=entries))

    assert told.endswith(f": {problem}; {TEXTS}")


@pytest.mark.parametrize(
    ("said", "known", "expected"),
    [
        (
            {"name": "n", "nb_jobs": 1},
            (),
            [
                'n: clusters: no cluster named; expected at least one cluster, {"NAME": {...}}',
                f"n: exec_file: missing; {COMMAND}",
            ],
        ),
        (
            PLAIN | {"clusters": {"Beta": {"walltme": "1"}}},
            ("alpha", "beta"),
            [
                "n:1: clusters.Beta: unknown cluster; expected alpha or beta",
                "n:1: Beta.walltme: unknown key; walltime is the nearest",
            ],
        ),
        (
            PLAIN | {"clusters": {"Beta": {"max_jobs": 0}}},
            (),
            [
                "n:1: clusters.Beta: not a valid cluster name;"
                " expected at most 32 small letters, digits and -, a letter first",
                "n:1: Beta.max_jobs = 0: out of range; expected a number from 1 to 10000000",
            ],
        ),
        (PLAIN | {"clusters": {"beta": 3}}, (), ["n:1: clusters.beta = 3: not a table; expected a table, {...}"]),
        (
            {"name": "n", "nb_jobs": 1, "clusters": {"beta": {"exec_file": 3}, "gamma": {}}},
            (),
            [f"n:1: beta.exec_file = 3: wrong form; {COMMAND}", f"n:1: gamma.exec_file: missing; {COMMAND}"],
        ),
    ],
    ids=["no clusters", "unknown cluster", "invalid name", "no table", "command of one cluster"],
)
def test_all_mistakes_of_a_jdl_are_reported_together(said: object, known: tuple[str, ...], expected: list[str]) -> None:
    assert told_of(said, known) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "name": "a",\n  "nb_jobs" 3\n}', "n:3: Expecting ':' delimiter"),
        ("name = 'a'\nnb_jobs = \n", "n:2: Invalid value"),
        ("name = 'a'\nnb_jobs = [1,\n", "n:2: "),
        ("[1]", "n:1: [1]: not a table"),
    ],
    ids=["JSON", "TOML", "TOML's end", "list"],
)
def test_a_syntax_error_of_a_jdl_is_reported_with_its_line(text: str, place: str) -> None:
    (told,) = told_of(text)

    assert told.startswith(place)
    assert "; expected " in told


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_an_empty_jdl_is_reported_as_empty(text: str) -> None:
    """Read as TOML, the file would lack every key."""
    assert told_of(text) == ["n: empty file; expected a JDL in JSON or TOML"]


def test_a_repeated_key_is_reported() -> None:
    twice = '{"name": "n", "nb_jobs": 1, "nb_jobs": 2, "exec_file": "x", "clusters": {"b": {}}}'

    assert told_of(twice) == ["n:1: nb_jobs: repeated key; expected the key once"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("#$ -j maybe", "job.sh:1: -j maybe: neither yes nor no; expected y or n"),
        (
            "#$ -l h_rt=0",
            "job.sh:1: -l h_rt=0: the time is less than a second;"
            " expected h_rt=H:M:S or h_rt=SECONDS, at least 1 second",
        ),
        (" \n\n", "job.sh: the script is empty; expected a script with a command"),
        ("#$ -tc 1", "job.sh:1: -tc 1: qsub accepts this option for arrays only; expected a line #$ -t N-M"),
        ("echo\n#$ -l h_rt=9000:0:0", f"job.sh:2: -l h_rt=9000:0:0: out of range; {YEAR}"),
        ("#$ -pe smp 100001", f"job.sh:1: -pe smp 100001: out of range; {LAYOUT}"),
    ],
    ids=["-j", "time of 0", "empty", "-tc", "long walltime", "many slots"],
)
def test_an_invalid_script_option_is_refused_as_by_qsub(line: str, problem: str) -> None:
    with pytest.raises(ConfigError) as told:
        campaign_of_job_script("job.sh", line, (), AT)

    assert told.value.problems == (problem,)
    assert not isinstance(told.value, CommandLineMistake)


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"resources": ("walltime=1h",)}, f"-l walltime=1h: not a time; {YEAR}"),
        ({"resources": ("h_rt=9000:0:0",)}, f"-l h_rt=9000:0:0: out of range; {YEAR}"),
        ({"resources": ("/core=0",)}, f"-l /core=0: out of range; {LAYOUT}"),
        ({"name": "a\nb"}, "-N a\nb: wrong form; expected 1 to 255 printable characters"),
        (
            {"clusters": ("A",)},
            "--clusters A: not a valid cluster name; expected at most 32 small letters, digits and -, a letter first",
        ),
    ],
    ids=["walltime", "h_rt", "slots", "name", "cluster"],
)
def test_a_wrong_option_of_the_command_line_is_reported_with_the_option(wish: dict[str, object], problem: str) -> None:
    asked = CampaignWithoutJdlOptions(**({"clusters": ("beta",)} | wish))

    for run in (
        lambda: campaign_with_task_per_number("1-3", ("x",), asked),
        lambda: campaign_of_job_script("job.sh", "#$ -N n\n#$ -l h_rt=60\necho\n", (), asked),
    ):
        with pytest.raises(CommandLineMistake) as told:
            run()

        assert told.value.problems == (f"the command line: {problem}",)


def test_a_task_file_with_only_blank_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    right = "all lines are blank; expected one line for each task"
    with pytest.raises(ConfigError) as refused:
        campaign_with_task_per_line(f"{tmp_path}/empty", ("x",), AT)
    with pytest.raises(CommandLineMistake, match="No such file or directory; expected a readable file"):
        campaign_with_task_per_line(f"{tmp_path}/none", ("x",), AT)
    with pytest.raises(CommandLineMistake, match="not a plain file; expected a file with one line for each task"):
        jdl_writer_and_task_files.read_added_task_file("/dev/zero")

    assert refused.value.problems == (f"{tmp_path}/empty: {right}",)
    assert not isinstance(refused.value, CommandLineMistake)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', True),
        ('\n{"name": "a"}', True),
        ('name = "a"\n[clusters.beta]\n', True),
        ("Exec_File = 'x'\n", True),
        ("#!/bin/sh\nname=1\n", False),
        ("#$ -t 1-9\nname=$1\necho $name\n", False),
        ("", False),
        ("# only a comment\n", False),
        ("OTHER=1\n", False),
        ("[ -f x ] && echo\n", False),
        ("{ echo; }\n", False),
        ("[" * 99_999, False),
    ],
)
def test_a_script_is_distinguished_from_a_jdl(text: str, expected: bool) -> None:
    assert looks_like_jdl(text) is expected


GLOBAL_LAST = """{
  "name": "a",
  "clusters": {
    "beta": {"walltime": "1:0", "exec_file": "x"},
    "gamma": {"Nosuch": ["walltime"]}
  },
  "WallTime": "bad", "exec_file": "y", "nb_jobs": 1, "name":
    "b"
}"""
IN_TOML = """name = "a"
nb_jobs = 1
walltime = '''
exec_file = no'''
exec_file = "x"
[clusters.beta]
walltime = "1:0"
Nosuch = 1
[clusters]
"gamma" = { max_jobs = 0 }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GLOBAL_LAST,
            [
                "n:7: name: repeated key",
                'n:7: WallTime = "bad": not a time',
                "n:5: gamma.Nosuch: unknown key",
            ],
        ),
        (
            IN_TOML,
            [
                'n:3: walltime = "exec_file = no": not a time',
                "n:8: beta.Nosuch: unknown key",
                "n:10: gamma.max_jobs = 0: out of range",
            ],
        ),
    ],
    ids=["JSON", "TOML"],
)
def test_a_mistake_in_a_jdl_is_reported_with_its_line_and_spelling(text: str, expected: list[str]) -> None:
    assert wrong_with(text) == expected
