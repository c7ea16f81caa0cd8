"""A JDL is parsed in CiGri's form, and all mistakes are reported together."""

import json
import re
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gridbridge.batch.campaign_array_script import BODY
from gridbridge.campaigns.submission import (
    jdl_reader,
    jdl_value_parsers,
    jdl_writer_and_task_files,
    site_admission_rules,
)
from gridbridge.campaigns.submission.jdl_writer_and_task_files import MOST_TOLD, TaskFileReader
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from tests.campaigns.submission.jdl_builder import jdl_text, mistakes_of_jdl, read_jdl, settings_at_beta, wrong_with

SWEEP = """{
  "name": "sweep", "nb_jobs": 3, "walltime": "00:10:00",
  "Exec_File": "$HOME/run.sh", "resources": "/nodes=2/core=4",
  "clusters": {"beta": {"type": "normal"}, "gamma": {"exec_file": "/bin/other", "max_jobs": 5}}
}"""


def test_a_global_key_holds_for_each_cluster_without_the_key() -> None:
    said = jdl_reader.parse_jdl("sweep.json", SWEEP)

    both = JdlSettingsAtCluster(exec_file="$HOME/run.sh", slots=8, nodes=2, walltime_s=600)
    beta = replace(both, is_besteffort=False)
    gamma = replace(both, exec_file="/bin/other", max_jobs=5)
    assert said.jdl == Jdl(name="sweep", clusters={"beta": beta, "gamma": gamma})
    assert said.parameters == ("0", "1", "2")
    assert said.warnings == ()


@pytest.mark.parametrize(
    ("value", "lines"), [(["cd x", "make"], "cd x\nmake"), ("make", "make"), ("a\nb # c", "a\nb # c")]
)
def test_a_prologue_is_a_text_or_list_of_shell_lines(value: object, lines: str) -> None:
    own = {"prologue": value, "epilogue_walltime": "0:5"}
    clusters = read_jdl(clusters={"beta": own, "gamma": {}}).jdl.clusters

    assert clusters["beta"] == JdlSettingsAtCluster(exec_file="x", prologue=lines, epilogue_walltime_s=300)
    assert clusters["gamma"].prologue == ""


@pytest.mark.parametrize("value", [[1], 3, {}, "a\0b", "x" * 70_000], ids=["no text", "number", "table", "NUL", "long"])
def test_an_invalid_epilogue_is_refused(value: object) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(epilogue=value))

    assert mistake.endswith('expected ["LINE OF SH", "LINE OF SH"]')


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("mem >= 2000 AND gpu='YES'", "mem>=2000,gpu=YES"),
        ("cpu = 'Intel Xeon' and zone <> b", "cpu=Intel Xeon,zone<>b"),
        ("h_vmem=2G,arch=lx-*", "h_vmem=2G,arch=lx-*"),
        ("a=1 OR b=2", "a=1;b=2"),
        ("(a = 1 or b <> 'x y') AND c=3", "a=1;b<>x y,c=3"),
        ("a=1 OR b=2 AND c=3", "a=1;b=2,a=1;c=3"),
        ("(a=1)", "a=1"),
        ("or=1 and and=2", "or=1,and=2"),
        ("a=1 OR a=1", "a=1"),
        ("arch=lx-amd64, os=deb12 OR os=deb13", "arch=lx-amd64,os=deb12;os=deb13"),
        ("(a=1, b=2 OR b=3) AND c=4", "a=1,b=2;b=3,c=4"),
        ("gpu != 'YES'", "gpu<>YES"),
        ("NOT a=1", "a<>1"),
        ("not (a=1 OR b<2) and NOT NOT c>3", "a<>1,b>=2,c>3"),
        ("NOT (a=1 AND b=2)", "a<>1;b<>2"),
        ("a IN (1, 'x y') AND b not in (3,4)", "a=1;a=x y,b<>3,b<>4"),
        ("a LIKE 'n%' OR b NOT LIKE '_x'", "a~n%;b<>~_x"),
        ("a IS NULL AND NOT b is null, c IS NOT NULL", "a==,b<>==,c<>=="),
        ("not=1 and in=2 or like='3'", "not=1;like=3,in=2;like=3"),
    ],
)
def test_properties_have_the_form_of_oarsub_or_qsub(value: str, kept: str) -> None:
    assert settings_at_beta(properties=value) == JdlSettingsAtCluster(exec_file="x", properties=kept)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        *[(each, "unreadable condition") for each in ("a", "a=", "a=1;rm", "a=$(id)", "a='$(id)'", "a=`id`")],
        *[(each, "unreadable condition") for each in ("a='it''s'", "a=b'", 'a="b"', "a='x\\'", "a='x\ny'")],
        *[(each, "unreadable condition") for each in ("a=1 OR", "a==b", "-a=b", "a=-b", "(a=1", "a=1 AND")],
        *[(each, "unreadable condition") for each in ("a=1)", "()", "a=1 b=2", "OR a=1", "a='x;y'", "NOT")],
        (" OR ".join(f"(a=1{n} AND b=1{n})" for n in range(9)), "too many conditions"),
        ("(" * 9999 + "a=1" + ")" * 9999, "too many conditions"),
        ("hostname=n1", "hostname is not allowed in properties"),
        ("h=n1", "h is not allowed in properties"),
        ("gb_besteffort=0", "gb_besteffort is not allowed in properties"),
        ("h_rt=9", "h_rt is not allowed in properties"),
        *[(each, "unreadable condition") for each in ("a=1,", ",a=1", "a=1,,b=2", "a=1 OR,b=2")],
        *[(each, "unreadable condition") for each in ("a IN ()", "a IN (1", "a LIKE", "a IS 1", "a NOT = 1")],
        ("a IN (" + ",".join(map(str, range(65))) + ")", "too many conditions"),
        (["a=1"], "no text"),
    ],
)
def test_properties_with_sql_or_shell_code_are_refused(value: object, wrong: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(properties=value))

    assert f"{wrong}; expected NAME = VALUE" in mistake


@pytest.mark.parametrize(
    ("value", "slots", "nodes"),
    [
        ("/nodes=2/core=4", 8, 2),
        ("network_address=2/resource_id=4", 8, 2),
        ("/host=1/cpu=2/core=3", 6, 1),
        ("/core=8", 8, 0),
        ("/cpu=2/core=4", 8, 0),
    ],
)
def test_resources_are_parsed_into_slots_and_nodes(value: str, slots: int, nodes: int) -> None:
    assert settings_at_beta(resources=value) == JdlSettingsAtCluster(exec_file="x", slots=slots, nodes=nodes)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("/nodes=1", "the number of slots is unknown without /core=M"),
        ("/host=2/cpu=1", "the number of slots is unknown without /core=M"),
        ("/gpu=1/core=2", "unknown level gpu"),
        ("/core=2/nodes=2", "the number of slots is unknown without /core=M"),
        ("/cpu=2/nodes=2/core=1", "the levels are in the wrong order"),
        ("/nodes=2/host=2/core=1", "the levels are in the wrong order"),
        ("/nodes=0/core=1", "out of range"),
        ("/nodes=9999/core=9999", "out of range"),
    ],
)
def test_resources_without_a_fixed_number_of_slots_are_refused(value: str, wrong: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(resources=value))

    assert re.search(f"{wrong}.*; expected /nodes=N/core=M, /core=M or .*1 to 100000 slots", mistake)


@pytest.mark.parametrize(
    ("value", "number", "name", "condition"),
    [
        (12, 12, "", "ok"),
        ("12", 12, "", "ok"),
        ("12:ended", 12, "", "ended"),
        ("reads", 0, "reads", "ok"),
        ("reads:same", 0, "reads", "same"),
        ("reads:same:ok", 0, "reads:same", "ok"),
        ("reads:later", 0, "reads:later", "ok"),
        ("0:ok", 0, "0", "ok"),
    ],
)
def test_a_predecessor_is_a_number_or_name_with_a_condition(
    value: object, number: int, name: str, condition: str
) -> None:
    (found,) = read_jdl(after=[value]).jdl.after

    assert (number, name, condition) == (found.number, found.name, found.condition)


def test_a_jdl_may_be_toml() -> None:
    text = 'name = "sweep"\nnb_jobs = 3\n[clusters.beta]\nexec_file = "run"\n'

    said = jdl_reader.parse_jdl("sweep.toml", text, type_=CampaignType.TEST)

    assert said.jdl == Jdl(
        name="sweep", type=CampaignType.TEST, clusters={"beta": JdlSettingsAtCluster(exec_file="run")}
    )


def test_a_parameter_file_has_one_task_on_each_line(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"\xef\xbb\xbfa 1\n\n  a 2 \r\nb\n")

    assert read_jdl(tmp_path, "nb_jobs", param_file="lines").parameters == ("a 1", "a#2 2", "b")


def test_all_mistakes_are_reported_with_their_lines_and_keys(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"good\n\xff\n" + b"x" * 70000)
    text = """{
  "param_file": "lines",
  "walltime": "soon",
  "nmae": "sweep",
  "clusters": {
    "beta": {"resources": "core:1", "exec_file": "x", "queue": "all q"},
    "gamma": {"max_jobs": 0}
  }
}"""

    assert wrong_with(text, tmp_path) == [
        'n:3: walltime = "soon": not a time',
        'n:6: beta.resources = "core:1": wrong form',
        'n:6: beta.queue = "all q": wrong form',
        "n:7: gamma.max_jobs = 0: out of range",
        "n:7: gamma.exec_file: missing",
        "lines:2: invalid start byte",
        "lines:3: the line has 70000 bytes",
        "n: name: missing",
        "n:4: nmae: unknown key",
    ]


@pytest.mark.parametrize(("text", "seconds"), [("1", 3600), ("0:30", 1800), ("00:10:05", 605), (2, 7200)])
def test_a_walltime_is_parsed_as_by_oarsub(text: object, seconds: int) -> None:
    assert jdl_value_parsers.parse_walltime_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "1:60", "-1", "9999999", True, None, "1:2:3:4"])
def test_an_invalid_walltime_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"not a time|out of range"):
        jdl_value_parsers.parse_walltime_s(text)


@pytest.mark.parametrize(
    ("folder", "read"), [("$HOME", "$HOME"), ("~/data", "$HOME/data"), ("", ""), ("/scratch/a", "/scratch/a")]
)
def test_exec_directory_may_start_at_the_home_directory(folder: str, read: str) -> None:
    assert settings_at_beta(exec_directory=folder).exec_directory == read


@pytest.mark.parametrize("folder", ["$HOMEX/a", "~bob/a", "$SCRATCH", "${HOME", "$HOME;x"])
def test_exec_directory_with_an_unsupported_variable_is_refused(folder: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(exec_directory=folder))

    first = folder.split("/")[0]
    assert f"{first} is not expanded in a folder's path; expected a folder, $HOME/... or /..." in mistake


@pytest.mark.parametrize(
    "said",
    [
        '"params": ["a\\u0000b"]',
        '"params": ["a\\nb"]',
        '"params": ["\\ud800"]',
        '"params": [" "]',
        '"params": ["a", ""]',
        '"params": [1]',
        '"nb_jobs": 0',
        '"nb_jobs": true',
        '"nb_jobs": 1e9',
        '"param_file": "/nonexistent"',
        '"param_file": "/"',
    ],
)
def test_invalid_task_parameters_are_refused_in_one_line(said: str) -> None:
    (line,) = mistakes_of_jdl(f'{{"name": "n", "exec_file": "x", "clusters": {{"beta": {{}}}}, {said}}}')

    assert line.startswith(f"n:1: {said.split(chr(34))[1]} = ")


MILLION = 1_000_000
OF_LINES = jdl_text("nb_jobs", param_file="lines")


def test_each_invalid_line_among_a_million_is_reported(tmp_path: Path) -> None:
    odd = {1: b"", 2: b"same", 3: b"same", 4: b" \t", 5: b"b\xe9d", 6: b"x" * 66_000}
    step = MILLION // 500
    lines = [odd.get(number % step, b"%d a" % number) for number in range(MILLION)]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))

    expected = [
        told_of
        for number in range(0, MILLION, step)
        for told_of in (
            f"lines:{number + 6}: invalid continuation byte; expected text in UTF-8",
            f"lines:{number + 7}: the line has 66001 bytes; expected at most 65536",
        )
    ]
    assert mistakes_of_jdl(OF_LINES, tmp_path) == expected


def test_of_a_million_invalid_lines_most_are_only_counted(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"\xe9\n" * MILLION)
    file = TaskFileReader("lines", str(tmp_path))

    assert list(file.read_numbered_lines()) == []
    assert file.problems[MOST_TOLD - 1 :] == [
        f"lines:{MOST_TOLD}: unexpected end of data; expected text in UTF-8",
        f"lines: {MILLION - MOST_TOLD} more wrong lines not shown",
    ]


@pytest.mark.parametrize("value", [True, False])
def test_the_keys_idempotent_and_rebalance_are_booleans(value: bool) -> None:
    said, usual = read_jdl(Idempotent=value, rebalance=value).jdl, read_jdl().jdl

    assert (said.is_idempotent, said.may_move) == (value, value)
    assert (usual.is_idempotent, usual.may_move) == (False, True)


SAVES: dict[str, object] = {"checkpointing_type": "signal"}
STATE: dict[str, object] = {"checkpoint_files": ["state"]}


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"rebalance": "no"}, 'rebalance = "no": not a boolean; expected true or false'),
        ({"idempotent": "yes"}, 'idempotent = "yes": not a boolean; expected true or'),
        ({"idempotent": 1}, "idempotent = 1: not a boolean; expected true or false"),
        (
            {"clusters": {"beta": {"idempotent": True}}},
            "beta.idempotent: set for one cluster; expected for the whole campaign, outside of clusters",
        ),
        ({"outputs": "result"}, 'outputs = "result": no list of files; expected ["'),
        ({"outputs": ["../x"]}, 'outputs = ["../x"]: wrong form; expected ["FILE"'),
        ({"outputs": ["/x"]}, 'outputs = ["/x"]: wrong form'),
        ({"after": 12}, 'after = 12: no list of campaigns; expected [12, "NAME", "12:ended", "NAME:same"]'),
        ({"after": [True]}, "after = [true]: True: not a number or name; expected [12"),
        ({"after": [""]}, 'after = [""]: wrong form; expected [12'),
        ({"after": list(range(1, 102))}, "no list of campaigns; expected [12"),
        ({"after": [12], "on_failure": "go on"}, 'on_failure = "go on": unknown word; expected wait or cancel'),
        ({"on_failure": "cancel"}, 'on_failure = "cancel": no key after; expected after, the campaigns to wait for'),
        ({"outputs_to": "/x"}, 'outputs_to = "/x": no key outputs; expected outputs, the files to bring'),
        (SAVES, 'checkpointing_type = "signal": no key checkpoint_files; expected checkpoint_files, such as ["state"]'),
        (SAVES | {"checkpoint_files": ["/x"]}, 'checkpoint_files = ["/x"]: wrong form; expected ["FILE"'),
        (
            SAVES | STATE | {"checkpoint_signal": "KILL"},
            'checkpoint_signal = "KILL": not such a signal; expected USR2 or',
        ),
        (SAVES | STATE | {"checkpoint_s": 0}, 'checkpoint_s = 0: out of range; expected "auto" or seconds, from 1'),
        (SAVES | STATE | {"checkpoint_s": "often"}, 'checkpoint_s = "often": not a number; expected "auto" or seconds'),
        (STATE, 'checkpoint_files = ["state"]: no key checkpointing_type; expected checkpointing_type = "signal"'),
        (
            {"clusters": {"beta": STATE}},
            "beta.checkpoint_files: set for one cluster; expected for the whole campaign, outside of clusters",
        ),
        (
            {"outputs": ["a"], "idempotent": False},
            "idempotent = false: contradicts the key outputs; expected true, or no outputs",
        ),
    ],
)
def test_an_invalid_declaration_is_refused_in_one_line(keys: dict[str, object], problem: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(**keys))

    assert problem in mistake


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ((), "USR2", 0, True)),
        ({"checkpointing_type": "none"}, ((), "USR2", 0, True)),
        (SAVES | STATE, (("state",), "USR2", 0, False)),
        (SAVES | STATE | {"checkpoint_signal": "SIGUSR1", "checkpoint_s": "60"}, (("state",), "USR1", 60, False)),
        (SAVES | STATE | {"checkpoint_s": "auto", "rebalance": True}, (("state",), "USR2", 0, False)),
    ],
    ids=["no checkpoints", "none", "defaults", "every key", "by itself"],
)
def test_a_jdl_says_how_tasks_make_checkpoints(keys: dict[str, object], expected: tuple[object, ...]) -> None:
    """A task that begins anew elsewhere would lose its checkpoint, so rebalancing moves none."""
    jdl = read_jdl(**keys).jdl

    assert expected == (jdl.checkpoint_files, jdl.checkpoint_signal, jdl.checkpoint_s, jdl.may_move)


def test_a_campaign_with_declared_outputs_may_get_speculative_attempts() -> None:
    """Each attempt writes into its own folder."""
    said = read_jdl(outputs=["a.dat", "logs/b", "a.dat"])

    assert (said.jdl.outputs, said.jdl.allows_speculative_attempts) == (("a.dat", "logs/b"), True)
    assert not read_jdl().jdl.allows_speculative_attempts


def test_each_field_of_a_clusters_settings_has_limits() -> None:
    """A campaign file of another program must obey the limits of a JDL."""
    kinds = {one.name for one in fields(JdlSettingsAtCluster)}

    assert kinds - {"is_besteffort", "is_semi_besteffort", "is_nightly"} == {*site_admission_rules.FIELDS}
    plain = Jdl(name="n", clusters={"beta": JdlSettingsAtCluster(exec_file="run")})
    assert site_admission_rules.jdl_limit_violation(plain) == ""


def test_the_size_of_a_param_file_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdl_writer_and_task_files, "FILE_BYTES", 9)
    (tmp_path / "a.txt").write_bytes(b"a\n" * 5)
    file = TaskFileReader("a.txt", str(tmp_path))

    assert len(list(file.read_numbered_lines())) == 4
    assert file.problems == ["a.txt:5: the file is too large; expected at most 9 bytes"]


@pytest.mark.parametrize("within", ["name", "cluster", "dataset", "twice"])
def test_messages_about_keys_have_no_control_characters(within: str) -> None:
    """Another user may have written the JDL, and a terminal obeys control characters."""
    odd = json.dumps("\x1b[31mx\r\n" + "y" * 999)
    texts = {
        "name": SWEEP.replace("{", f"{{{odd}: 1, ", 1),
        "cluster": SWEEP.replace('"beta"', odd),
        "dataset": SWEEP.replace("{", f'{{"datasets": {{{odd}: {{}}}}, ', 1),
        "twice": SWEEP.replace("{", f"{{{odd}: 1, {odd}: 2, ", 1),
    }
    told = mistakes_of_jdl(texts[within])

    assert all(one.isprintable() for one in told)
    assert any("[31mx" in one for one in told)


@pytest.mark.parametrize(
    "command", ["./run # fast", "# nothing", "a\n./run --x;# y", "echo \\\\ # a", "(a) #a", "./run ##"]
)
def test_a_command_that_ends_in_a_comment_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="a comment at the end"):
        jdl_value_parsers.parse_task_command(command)


@pytest.mark.parametrize(
    "command",
    [
        "./run a#b",
        "./run #",  # it is to have no parameters
        "./run '# a'",
        './run "it\'s # a"',
        "./run \\# a",
        "./run ${x#y} $#",
        "# what it does\n./run",
        "cat <<end # it's\nend\n./run",
    ],
)
def test_a_number_sign_outside_a_final_comment_is_accepted(command: str) -> None:
    assert jdl_value_parsers.parse_task_command(command) == command


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("\necho\n", "\necho"),
        ("echo \r\n \n", "echo"),
        ("cd x\necho\n\n", "cd x\necho"),
        ("echo -n ", "echo -n "),
        ("echo \\\n", "echo \\\n"),
        ("echo \\ \n\n", "echo \\ "),
        ("echo \\\\\n", "echo \\\\"),
    ],
    ids=["toml", "crlf", "lines", "blank", "continued line", "escaped blank", "escaped"],
)
def test_blank_lines_after_a_command_are_removed(command: str, read: str) -> None:
    """TOML's multi-line texts end with a line end."""
    assert settings_at_beta(exec_file=command).exec_file == read


@pytest.mark.parametrize("command", ["echo\n", "\necho \n\n", "echo \\\n", "echo\\\\\n"])
def test_parameters_are_never_executed_as_a_separate_command(command: str) -> None:
    with open(BODY, encoding="ascii") as body:
        assert 'exec sh -c "$gb_trap$gb_exec \\"\\$@\\"" sh "$@"' in body.read()
    words = ("echo", "run by itself")
    argv = ("/bin/sh", "-c", f'{settings_at_beta(exec_file=command).exec_file} "$@"', "sh", *words)

    said = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert "run by itself" not in said.stdout.splitlines()


@pytest.mark.parametrize("command", ["", " ", "\n\n"])
def test_a_blank_command_is_refused(command: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(exec_file=command))

    assert mistake.endswith("expected a command line")
