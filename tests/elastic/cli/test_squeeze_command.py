"""`gridbridge squeeze` of a model, as by hsqueeze, and of the site's own cluster; wrong files are refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.config.configuration_file import parse_configuration
from gridbridge.elastic import ganeti_text_file
from gridbridge.elastic.balancer import squeeze_preview
from gridbridge.errors import ParseError
from tests.elastic.saved_rounds import save_round
from tests.elastic.site_text import ALPHA, RACK, powered_hosts

GOLDEN = Path(__file__).parents[2] / "golden" / "hsqueeze-3.0.2"
CASES = tuple(path.stem for path in sorted(GOLDEN.glob("*.data")))
SPECS = "|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,ext|4.0|32.0"
MODEL = f"""\
default|uuid||
default|uuid|preferred||

one.example|4096|100|3900|100000|90000|4|M|uuid|1||N|0|1|1.0
two.example|4096|100|3900|100000|90000|4|N|uuid
six.example|4096|100|3900|100000|90000|4|Y|uuid|1|htools:standby:a

vm.example|512|1000|1|running|Y|two.example||ext|


{SPECS}
""".partition("\n")[2]


def run(model: Path, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("squeeze", "--model", str(model), *words))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text(MODEL)
    return path


@pytest.mark.parametrize("case", CASES)
def test_the_output_equals_that_of_hsqueeze(case: str, tmp_path: Path) -> None:
    options = (GOLDEN / f"{case}.options").read_text().split()

    done = run(GOLDEN / f"{case}.data", *options, "-S", str(tmp_path / "saved"))

    assert done.exit_code == 0, done.output
    assert done.stdout == (GOLDEN / f"{case}.out").read_text()
    assert (tmp_path / "saved.squeezed").read_text() == (GOLDEN / f"{case}.squeezed").read_text()


def test_the_golden_cases_cover_each_answer() -> None:
    answers = "".join((GOLDEN / f"{case}.out").read_text() for case in CASES)

    for answer in ("'Nodes to offline'", "'Nodes to online'", "'No action'"):
        assert answer in answers


def test_a_second_squeeze_of_the_saved_result_changes_nothing(model: Path, tmp_path: Path) -> None:
    assert run(model, "-S", str(tmp_path / "saved")).stdout == "'Nodes to offline'\ntwo.example\n"

    again = run(tmp_path / "saved.squeezed")

    assert (again.exit_code, again.stdout) == (0, "'No action'\n")


def test_the_commands_are_written_as_a_script(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "commands"

    done = run(model, f"-C{path}", "--no-headers")

    assert done.stdout == f"two.example\nThe commands have been written to file '{path}'\n"
    assert "  check\n  gnt-instance migrate -f -n one vm.example\n" in path.read_text()
    assert path.read_text().endswith("\necho Power Commands\n  gnt-node power -f off two\n")


@pytest.mark.parametrize(
    ("line", "text", "told"),
    [
        (1, "default|uuid", "the line has 2 fields; expected 4 or more"),
        (1, "default|uuid|often||", "the allocation policy is 'often'; expected one of preferred"),
        (3, "one|much|0|1|1|1|4|M|uuid", "the node's memory is 'much'; expected a number"),
        (3, "one|1|0|1.5|1|1|4|M|uuid", "its free memory is '1.5'; expected a whole number"),
        (3, "one|1|0|1|1|1|4|M|other", "unknown group 'other'; expected a name from"),
        (7, "vm|1|1|1|running|Y|nine||ext|", "unknown node 'nine'; expected a name from"),
        (7, "vm|1|1|1|asleep|Y|two.example||ext|", "its status is 'asleep'; expected one of run"),
        (7, "vm|1|1|1|running|Y|two.example||tape|", "the disk template is 'tape'; expected one"),
        (7, "vm|1|1|1|running|y|two.example||ext|", "whether it is balanced is 'y'; expected Y or"),
        (3, "one|-(1)|0|1|1|1|4|M|uuid", "the node's memory is '-(1)'; expected a number"),
        (3, "one|1e18|0|1|1|1|4|M|uuid", "the node's memory is '1e18'; expected a number below"),
        (3, "one|1|(0) |1|1|1|4|M|uuid", "its own memory is '(0) '; expected a whole number"),
        (10, f"other{SPECS}", "0 groups are called 'other'; expected one"),
        (10, "|1,2|||4.0|1.0", "an instance's size is '1,2'; expected six whole numbers"),
    ],
)
def test_the_error_about_a_wrong_line_names_the_line(line: int, text: str, told: str, model: Path) -> None:
    lines = MODEL.split("\n")
    lines[line - 1] = text
    model.write_text("\n".join(lines))

    done = run(model)

    assert (done.exit_code, done.stdout) == (2, "") or done.exit_code == 1
    assert f"{model}:{line}: {told}" in str(done.exception)


@pytest.mark.parametrize("text", ["", "one\n", "a|b|preferred||\n\n\n"])
def test_a_file_without_all_sections_is_refused(text: str, model: Path) -> None:
    model.write_text(text)

    assert "groups, nodes, instances, tags, policies" in str(run(model).exception)


def test_the_answer_is_printed_as_json(model: Path, tmp_path: Path) -> None:
    done = run(model, "--json", f"-C{tmp_path}/script", "-S", str(tmp_path / "saved"))

    told = json.loads(done.stdout)
    assert (told["answer"], told["nodes"], told["is_enough"]) == ("Nodes to offline", ["two.example"], True)
    assert told["online_candidates"] == ["six.example"]
    assert told["commands"][-1] == "gnt-node power -f off two"
    assert (tmp_path / "script").exists()
    assert (tmp_path / "saved.squeezed").exists()


@pytest.mark.parametrize(
    "words", [("--from", "/tmp"), ("--json", "-v"), ("--json", "-C"), ("--json", "--no-headers")], ids=" ".join
)
def test_contradicting_options_are_usage_errors(model: Path, words: tuple[str, ...]) -> None:
    done = run(model, *words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert words[-1].split("/")[0] in done.stderr or words[0] in done.stderr


@pytest.mark.parametrize("words", [("-v",), ("-C",), ("-C/tmp/x",), ("-S", "x"), ("--no-headers",)])
def test_options_about_a_model_need_a_model(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(gridbridge, ("squeeze", *words))

    assert (done.exit_code, done.stdout) == (2, "")
    assert "--model" in done.stderr


@pytest.mark.parametrize(
    "change", [lambda text: f"\ufeff{text}", lambda text: text.replace("\n", "\r\n")], ids=["mark", "ends"]
)
def test_a_model_with_byte_order_mark_or_crlf_is_read(
    change: Callable[[str], str], model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(change(MODEL).encode())

    assert run(other, "-v").stdout == run(model, "-v").stdout


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ganeti_text_file, "MOST_BYTES", 1 << 20)
    done = run(Path("/dev/zero"))

    assert isinstance(done.exception, ParseError)
    assert str(done.exception) == "/dev/zero: too large; expected at most 1 MiB"


DOUBLE = """default|uuid|preferred|

one|9000|0|8872|3102|1052|16|M|uuid|1
two|9000|0|8872|3102|1052|16|{role}|uuid|1

vm|128|1024|1|running|Y|one|two|drbd||1
vm|128|1024|1|running|Y|two|one|drbd||1


"""


@pytest.mark.parametrize("role", ["N", "X", ""])
def test_duplicate_names_and_unknown_roles_are_accepted_as_by_hsqueeze(tmp_path: Path, role: str) -> None:
    """Two instances of one name count as two. A node of an unknown role is ordinary."""
    (tmp_path / "model").write_text(DOUBLE.format(role=role))
    done = run(tmp_path / "model")

    assert (done.exit_code, done.stdout, done.stderr) == (0, "'No action'\n", "")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([("one|9000|0|8872|3102", "one|9000|0|8000|9999")], ["one is missing 872 MB ram and 6 GB disk"]),
        (
            [("two|drbd", "one|ext"), ("|8872|3102|", "|8000|3102|")],
            ["two is missing 872 MB ram and 1 GB disk", "one is missing 1000 MB ram and 0 GB disk"],
        ),
    ],
    ids=["two nodes", "a single node"],
)
def test_inconsistent_data_causes_the_warning_of_hsqueeze(
    tmp_path: Path, changes: list[tuple[str, str]], told: list[str]
) -> None:
    text = DOUBLE.format(role="N")
    for old, new in changes:
        text = text.replace(old, new)
    (tmp_path / "model").write_text(text)
    done = run(tmp_path / "model")

    lines = ["Warning: cluster has inconsistent data:", *(f"  - node {line}" for line in told)]
    assert (done.exit_code, done.stderr.splitlines()) == (0, lines)


def test_a_policy_belongs_to_the_only_group_with_that_name_or_uuid(model: Path, tmp_path: Path) -> None:
    policy = f"uuid{SPECS}\n".replace("|128,", "|4096,", 1)
    model.write_text(MODEL + policy)
    run(model, "-S", str(tmp_path / "saved"))

    assert "\ndefault|4096,1," in (tmp_path / "saved.original").read_text()

    model.write_text(f"uuid|other|preferred||\n{MODEL}{policy}")
    assert "2 groups are called 'uuid'; expected one" in str(run(model).exception)


UP = {"up_since": "2126-01-01T11:00:00+00:00", "state": "ready"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_round(tmp_path, "idle.xml", nodes={"alpha-n1": UP, "alpha-n2": UP})


def squeeze(folder: Path, more: str, *words: str) -> Result:
    """Run a squeeze of a saved round; `more` is added to the configuration."""
    path = folder / "gridbridge.toml"
    path.write_text(ALPHA + more)
    path.chmod(0o600)
    options = ("--from", str(folder), "--config", str(path))
    return CliRunner().invoke(gridbridge, ("squeeze", *options, *words))


def test_squeeze_prints_the_power_off_steps_of_a_host(folder: Path) -> None:
    done = squeeze(folder, "[balance]\nmax_nodes = 5\n", "--json")

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["off"], told["on"]) == (["alpha-n2"], [])
    assert told["deeds"] == [
        {"host": "alpha-n2", "do": "drain"},
        {"host": "alpha-n2", "do": "tag", "tag": "htools:standby:auto"},
        {"host": "alpha-n2", "do": "stop"},
    ]
    assert told["sentence"].endswith(": alpha-n2 can be powered off")


def test_without_max_nodes_the_sentence_names_the_missing_key(folder: Path) -> None:
    done = squeeze(folder, "")

    right = ": max_nodes of [balance] is not set: no host is powered off or woken\n"
    assert done.stdout.endswith(right)


@pytest.mark.parametrize(
    ("more", "lacks"),
    [
        ("", ["[squeeze] enabled is false", "no host has a section [power.NAME]"]),
        ("[squeeze]\nenabled = true\n", ["no host has a section [power.NAME]"]),
        ("[squeeze]\nenabled = true\n" + powered_hosts("n1") + RACK, []),
    ],
    ids=["a fresh site", "no host with power", "both"],
)
def test_the_missing_settings_of_a_squeeze_are_listed(more: str, lacks: list[str]) -> None:
    found = squeeze_preview.missing_squeeze_settings(parse_configuration("FILE", (ALPHA + more).encode()))

    assert [lack.partition(":")[0] for lack in found] == lacks


@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        ("", ("--minimal-resources", "3"), "the minimal reserve is 3; expected at most the target (2)"),
        (
            "[squeeze]\nminimal_reserve = 4.0\n",
            (),
            "[squeeze] minimal_reserve: 4.0; expected at most target_reserve (2.0)",
        ),
    ],
)
def test_a_minimal_reserve_above_target_is_refused(more: str, words: tuple[str, ...], told: str, folder: Path) -> None:
    assert told in str(squeeze(folder, more, *words).exception)
