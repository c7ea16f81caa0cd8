"""gridsub finds the input files of tasks, which the campaign file lists, and checks the names of outputs."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from glob import glob
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gridbridge.campaigns.cli.gridsub_campaign_source import check_task_files
from gridbridge.campaigns.store import campaign_file_lines
from gridbridge.campaigns.store.campaign_files_of_owners import (
    encode_campaign_file,
    read_inputs_of_own_tasks,
    read_own_campaign_file,
)
from gridbridge.campaigns.submission.campaigns_without_jdl import (
    CampaignWithoutJdlOptions,
    campaign_with_task_per_line,
    campaign_with_task_per_number,
)
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl, parse_jdl
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.campaigns.submission.task_file_listing import (
    SortedFolderListings,
    list_inputs_of_tasks,
    make_folder_of_outputs,
    require_valid_outputs_of_tasks,
)
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_input_files import TaskInputFile, parse_inputs_of_task_line, task_line_with_inputs

DIGEST = "0" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("reads/a.fq", "reads/b.fq", "reads/b.idx", "ref.fa", "other/ref.fa"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"content of {name}\n")
    return tmp_path


def parsed(folder: Path, *patterns: str, params: tuple[str, ...] = ("a 1", "b 2")) -> ParsedJdl:
    table = {"name": "sweep", "exec_file": "run", "clusters": {"beta": {}}, "params": params, "inputs": patterns}
    return parse_jdl("sweep.json", json.dumps(table), folder=str(folder))


def names(folder: Path, *patterns: str, **other: tuple[str, ...]) -> list[list[str]]:
    campaign = parsed(folder, *patterns, **other)
    lines = list_inputs_of_tasks(campaign.jdl, campaign.parameters).lines
    return [[file.name for file in parse_inputs_of_task_line(line)] for line in lines]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["reads/{1}.fq"], [["reads/a.fq"], ["reads/b.fq"]]),
        (["ref.fa", "reads/{1}.fq"], [["ref.fa", "reads/a.fq"], ["ref.fa", "reads/b.fq"]]),
        (["reads/{1}.*"], [["reads/a.fq"], ["reads/b.fq", "reads/b.idx"]]),
        (["{folder}/reads/{1}.fq"], [["a.fq"], ["b.fq"]]),
        (["{folder}/./reads/{1}.fq"], [["reads/a.fq"], ["reads/b.fq"]]),
        (["./ref.fa", "ref.fa"], [["ref.fa"], ["ref.fa"]]),
    ],
    ids=["word", "shared file", "wildcard", "absolute", "absolute with a mark", "twice"],
)
def test_a_pattern_names_the_files_of_each_task(folder: Path, patterns: list[str], expected: list[list[str]]) -> None:
    assert expected == names(folder, *(pattern.replace("{folder}", str(folder)) for pattern in patterns))


def test_files_of_a_campaign_with_predecessors_may_be_made_later(folder: Path) -> None:
    """A file of several tasks has one name at a cluster, which no other campaign uses."""
    table = {"name": "sum", "exec_file": "run", "clusters": {"beta": {}}, "params": ["a", "b"], "after": ["reads"]}
    inputs = {"inputs": ["made/{}.txt", "ref.fa", "reads/{}.f*"]}
    campaign = parse_jdl("sum.json", json.dumps(table | inputs), folder=str(folder))

    first, again = (
        [parse_inputs_of_task_line(line) for line in list_inputs_of_tasks(campaign.jdl, campaign.parameters).lines]
        for _ in range(2)
    )

    assert [["made/a.txt", "ref.fa", "reads/a.fq"], ["made/b.txt", "ref.fa", "reads/b.fq"]] == [
        [file.name for file in of_task] for of_task in first
    ]
    assert [True, True, False] == [file.is_made_by_predecessor for file in first[0]]
    assert first[0][1].digest == first[1][1].digest != again[0][1].digest
    assert 5 == len({file.digest for of_task in first for file in of_task})


def test_a_pattern_may_begin_with_the_name_of_a_dataset(folder: Path) -> None:
    table = {"name": "sweep", "exec_file": "run", "clusters": {"beta": {}}, "params": ["a"]}
    table |= {"datasets": {"seqs": {"path": "reads"}}, "inputs": ["dataset:seqs/{1}.fq"]}

    assert (f"{folder}/reads/./{{1}}.fq",) == parse_jdl("s.json", json.dumps(table), folder=str(folder)).jdl.inputs
    for pattern in ("dataset:other/x", "dataset:seqs", "dataset:seqs/../x"):
        with pytest.raises(ConfigError, match=r"^s.json:1: inputs = "):
            parse_jdl("s.json", json.dumps(table | {"inputs": [pattern]}), folder=str(folder))


def test_empty_braces_stand_for_all_parameters(folder: Path) -> None:
    (folder / "a 1").write_text("")

    assert [["a 1"]] == names(folder, "{}", params=("a 1",))


def test_a_parameter_is_no_wildcard(folder: Path) -> None:
    (folder / "reads/*.fq").write_text("")

    assert [["reads/*.fq"]] == names(folder, "reads/{}.f?", params=("*",))


@pytest.mark.parametrize(
    ("patterns", "why"),
    [
        (["reads/{2}.fq"], "{folder}/reads/1.fq: No such file or directory"),
        (["reads/{3}.fq"], "the task has no word 3, so {3} has no value"),
        (["reads"], "{folder}/reads: not a file; a pattern FOLDER/* names the files of a folder"),
        (["none/*"], "{folder}/none/*: no file has such a name"),
        (["ref.fa", "{folder}/other/ref.fa"], "ref.fa: two inputs have this path in the task's folder"),
    ],
    ids=["missing", "no such word", "folder", "no match", "two files with a name"],
)
def test_each_task_without_a_file_is_reported(folder: Path, patterns: list[str], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        names(folder, *(pattern.replace("{folder}", str(folder)) for pattern in patterns))

    problems = [line.partition(": ")[::2] for line in str(error.value).splitlines()]
    assert ["inputs of task 0", "inputs of task 1"] == [task for task, _ in problems]
    assert problems[0][1].startswith(why.replace("{folder}", str(folder)))


def test_a_parameter_can_not_leave_the_folder(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"inputs of task 0: .*expected a path below a folder"):
        names(folder, "reads/{}", params=("../ref.fa",))


@pytest.mark.parametrize("patterns", [[], [""], ["../x"], ["a//b"], [3], "x", ["a\nb"]], ids=str)
def test_wrong_patterns_are_mistakes_of_the_jdl(folder: Path, patterns: object) -> None:
    table = {"name": "sweep", "exec_file": "run", "clusters": {"beta": {}}, "params": ["a"], "inputs": patterns}
    if patterns:
        with pytest.raises(ConfigError, match=r'^sweep.json:1: inputs = .*; expected \["FOLDER/FILE", .*'):
            parse_jdl("sweep.json", json.dumps(table), folder=str(folder))
    else:
        assert () == parse_jdl("sweep.json", json.dumps(table), folder=str(folder)).jdl.inputs


def test_a_file_of_many_tasks_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[str]()
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: reads.append(file.name) or real(file, name))
    campaign = parsed(folder, "ref.fa", params=tuple(map(str, range(100))))

    files = list_inputs_of_tasks(campaign.jdl, campaign.parameters)

    assert [f"{folder}/ref.fa"] == reads
    assert "inputs: 1 different file with 18 bytes for 100 tasks" == files.summary


def test_tasks_that_share_a_large_file_are_a_group(folder: Path) -> None:
    """A file of all tasks, and small files, make no group."""
    for name in ("large/a", "large/b", "ref.fa"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode() + b"\0" * (1 << 20))
    campaign = parsed(folder, "large/{2}", "reads/{2}.fq", "ref.fa", params=("0 a", "1 a", "2 b", "3 a", "4 b"))

    files = list_inputs_of_tasks(campaign.jdl, campaign.parameters)

    assert ((0, 1, 0), (2, 2, 1), (3, 3, 0), (4, 4, 1)) == files.shared_input_groups


def test_added_tasks_have_their_numbers_and_outputs_of_their_own(folder: Path) -> None:
    jdl = parsed(folder, "reads/{2}.fq", params=("0 a",)).jdl
    assert [["reads/b.fq"]] == [
        [file.name for file in parse_inputs_of_task_line(line)]
        for line in list_inputs_of_tasks(jdl, ("0 a", "1 b"), 1).lines
    ]
    with pytest.raises(ConfigError, match=r"^inputs of task 1: .*c.fq: No such file"):
        check_task_files(jdl, ("0 a", "1 c"), 1)
    home = replace(jdl, outputs=("{2}.x",), outputs_to=str(folder))
    with pytest.raises(ConfigError, match=r"^outputs of task 1: a.x: task 0 has this output too"):
        check_task_files(home, ("0 a", "1 a"), 1)


def test_a_folder_is_listed_once_for_many_tasks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else 1,000 tasks with 100 files each would read 100,000 names 1,000 times."""
    listed = list[str]()
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(str(path)) or real(path))

    assert [["reads/a.fq"]] * 100 == names(folder, "reads/a*", params=("a",) * 100)
    assert [f"{folder}/reads"] == listed


@pytest.fixture(name="tree", scope="module")
def _tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    tree = tmp_path_factory.mktemp("tree")
    for name in ("a", "ab", ".a", "b/a", "b/.b", "b/ab/a", "\udcff/a", "bb"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    return str(tree)


@given(st.lists(st.sampled_from(["a", "*", "?", "[ab]", "[!a]", "/", ".", "b", "\udcff"]), min_size=1, max_size=6))
def test_a_pattern_finds_the_files_that_glob_finds(tree: str, parts: list[str]) -> None:
    pattern = "".join(parts)
    assume("//" not in f"/{pattern}/")

    assert sorted(glob(pattern, root_dir=tree)) == sorted(SortedFolderListings().paths_of_pattern(tree, pattern))


def test_the_jdl_of_a_campaign_has_its_inputs_again(folder: Path) -> None:
    campaign = parsed(folder, "reads/{1}.fq")
    table = campaign_to_jdl_table(campaign.jdl, campaign.parameters)

    assert parse_jdl("again.json", json.dumps(table), folder="/").jdl.inputs == campaign.jdl.inputs


def test_input_patterns_of_a_command_line_use_the_words_of_its_command(folder: Path) -> None:
    (folder / "tasks").write_text("a.fq\nb.fq\n")
    options = CampaignWithoutJdlOptions(clusters=("beta",), inputs=(f"{folder}/./reads/{{}}",))
    of_lines = campaign_with_task_per_line(str(folder / "tasks"), ("run", "{}"), options)
    of_numbers = campaign_with_task_per_number("1-2", ("run", "{}"), options)

    assert (f"{folder}/./reads/{{2}}",) == of_lines.jdl.inputs
    assert 2 == len(list_inputs_of_tasks(of_lines.jdl, of_lines.parameters).lines)
    assert (f"{folder}/./reads/{{}}",) == of_numbers.jdl.inputs


def test_outputs_of_a_command_line_come_to_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").write_text("a.fq\n")
    options = CampaignWithoutJdlOptions(clusters=("beta",), outputs=("out/{}.bam",))

    jdl = campaign_with_task_per_line("tasks", ("run", "{}"), options).jdl

    assert (("out/{2}.bam",), str(tmp_path)) == (jdl.outputs, jdl.outputs_to)


@pytest.mark.parametrize(
    ("outputs", "outputs_to", "problems"),
    [
        (("{2}.x",), "/home", ""),
        (("{3}.x",), "", "outputs of task 0: the task has no word 3, so {3} has no value"),
        (("{1}.x",), "", ""),
        (
            ("{1}.x",),
            "/home",
            "outputs of task 1: a.x: task 0 has this output too; expected a different name for each task",
        ),
        (("x",), "/home", ""),
        (("x", "{1}/{2}"), "/home", ""),
        (
            ("x", "{2}/x"),
            "/home",
            "outputs of task 1: 1/x: task 0 has this output too; expected a different name for each task",
        ),
        (
            ("{2}", "{1}"),
            "/home",
            "outputs of task 1: a: task 0 has this output too; expected a different name for each task",
        ),
    ],
    ids=[
        *("a name each", "no such word", "equal names stay apart", "equal names in a folder", "no placeholder"),
        *("names of two kinds", "a name with the task's number", "a name of both tasks"),
    ],
)
def test_each_task_has_outputs_of_its_own(outputs: tuple[str, ...], outputs_to: str, problems: str) -> None:
    jdl = Jdl(name="sweep", outputs=outputs, outputs_to=outputs_to)
    if not problems:
        require_valid_outputs_of_tasks(jdl, ("a 1", "a 2"))
    else:
        with pytest.raises(ConfigError) as error:
            require_valid_outputs_of_tasks(jdl, ("a 1", "a 2"))
        assert problems in str(error.value).splitlines()


def test_a_new_campaign_makes_the_folder_of_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for _ in range(2):
        make_folder_of_outputs(Jdl(name="sweep", outputs_to=str(tmp_path / "new/results")))
    with pytest.raises(ConfigError, match=f"^outputs_to = {tmp_path}/file: File exists$"):
        make_folder_of_outputs(Jdl(name="sweep", outputs_to=str(tmp_path / "file")))

    assert (tmp_path / "new/results").is_dir()


def test_the_owner_reads_parameters_without_inputs_and_inputs_alone(tmp_path: Path) -> None:
    file = TaskInputFile("a", "/data/a\udcff", 3, DIGEST)
    lines = (task_line_with_inputs("0 x", [file]), "1 y")
    path = tmp_path / "c.7"
    path.write_bytes(encode_campaign_file({"name": "sweep", "inputs": ["/data/./a"]}, lines))
    os.chmod(path, 0o600)

    assert ["0 x", "1 y"] == read_own_campaign_file(7, str(tmp_path))[1]
    assert {0: ["/data/a\udcff"], 1: []} == {
        task: [found.path for found in files]
        for task, files in read_inputs_of_own_tasks(7, None, str(tmp_path)).items()
    }
    assert {1} == read_inputs_of_own_tasks(7, {1}, str(tmp_path)).keys()


LINES = st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=9)


@given(st.lists(LINES, min_size=1, max_size=3), st.sets(st.integers(0, 30)), st.integers(1, 20))
def test_lines_of_tasks_are_found_in_all_files_of_a_campaign(
    files: list[list[bytes]], tasks: set[int], chunk_bytes: int
) -> None:
    """A file with added tasks has a header, too; what stands after the last newline is no line."""
    data = [b"".join(line + b"\n" for line in (b"{}", *lines)) + b"x" for lines in files]
    expected = dict(enumerate(line.decode("utf-8", "surrogateescape") for lines in files for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign_file_lines, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(campaign_file_lines, "FEW", 3)
        whole, some = (
            campaign_file_lines.header_and_lines_of_tasks(map(BytesIO, data), wanted) for wanted in (None, tasks)
        )
    assert (b"{}\n", expected) == whole
    assert (b"{}\n", {task: line for task, line in expected.items() if task in tasks}) == some


@pytest.mark.parametrize(("tasks", "lines"), [((), 1), (range(7), 8), ((3, 900), 902)])
def test_what_follows_the_last_wanted_line_is_not_read(tasks: Iterable[int], lines: int) -> None:
    for size in (1000, 10_000):
        file = BytesIO(b"".join(b"%09d\n" % number for number in range(size)))
        campaign_file_lines.header_and_lines_of_tasks([file], tasks)

        assert 10 * lines == file.tell()


NAMES = st.from_regex(r"[^\x00/]{1,9}", fullmatch=True).filter(lambda name: name not in (".", ".."))


@given(
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**15)), max_size=4), st.from_regex(r"[^\x00\n]*", fullmatch=True)
)
def test_a_task_line_keeps_its_inputs(rows: list[tuple[str, str, int]], parameters: str) -> None:
    inputs = [TaskInputFile(name, f"/{path}", size, DIGEST) for name, path, size in rows]
    line = task_line_with_inputs(parameters, inputs)

    assert "\n" not in line
    assert parameters == line.partition("\0")[0]
    assert [(file.name, file.path, file.size_bytes) for file in parse_inputs_of_task_line(line)] == [
        (name, f"/{path}", size) for name, path, size in rows
    ]


GOOD = ["a", "/a", 1, DIGEST]


@pytest.mark.parametrize(
    "rows",
    [
        {},
        "x",
        [["a"]],
        [["../a", *GOOD[1:]]],
        [["/a", *GOOD[1:]]],
        [["a", "b", *GOOD[2:]]],
        [["a", "/a", -2, DIGEST]],
        [["a", "/a", True, DIGEST]],
        [["a", "/a", 1, "$(id)"]],
        [GOOD] * 10_001,
    ],
    ids=lambda rows: str(rows)[:30],
)
def test_a_list_of_inputs_that_gridsub_would_not_write_is_refused(rows: object) -> None:
    with pytest.raises(ValueError, match="not a list of input files"):
        parse_inputs_of_task_line(f"0\0{json.dumps(rows)}")
