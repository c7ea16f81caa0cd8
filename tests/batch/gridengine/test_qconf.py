"""Tests of the parsers of qconf, and of edits that sh runs against a fake qconf."""

import subprocess
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.errors import ParseError
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow, SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.batch.gridengine.cells import cell_of_scripts, fake_cell


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccessSettings:
    return cell_of_scripts(tmp_path, qconf=fake_cell("qconf_with_tables"))


def make(edit: SetupEdit, cell: GridEngineCellAccessSettings) -> int:
    environment = qconf_parser_and_edits.cell_environment_shell_line(cell)
    line = f"{environment}; {qconf_parser_and_edits.setup_edit_shell_line(edit)}"
    return subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.DEVNULL, check=False).returncode


def read(cell: GridEngineCellAccessSettings, name: str) -> str:
    return Path(cell.binaries, name).read_text()


def test_folded_attribute_lines_are_joined() -> None:
    shown = b"#h:\nload_sensor   /a, \\\n       /b\nparams   x=1 \\\n    y=2\nempty\n\n"

    assert qconf_parser_and_edits.parse_object_attributes(shown) == {
        "load_sensor": "/a,/b",
        "params": "x=1 y=2",
        "empty": "",
    }


def test_a_row_of_the_resource_table_is_parsed_and_printed_alike() -> None:
    rows = qconf_parser_and_edits.parse_complex_table(
        b"#name shortcut\n#---\nremote  rm BOOL  == YES  NO  0  0\n# >#<\n"
    )

    expected = QconfComplexRow(name="remote", shortcut="rm", type="BOOL", relation="==", requestable="YES")
    assert rows == {"remote": expected}
    assert expected.qconf_line == "remote rm BOOL == YES NO 0 0"


@pytest.mark.parametrize("shown", [b"", b"#name\n", b"denied: no permission\n"])
def test_an_invalid_resource_table_is_refused(shown: bytes) -> None:
    with pytest.raises(ParseError):
        qconf_parser_and_edits.parse_complex_table(shown)


@pytest.mark.parametrize(("shown", "expected"), [(b"a\nb\n", ("a", "b")), (b"no operator defined\n", ())])
def test_a_sentence_without_names_is_an_empty_list(shown: bytes, expected: tuple[str, ...]) -> None:
    assert qconf_parser_and_edits.parse_name_list(shown) == expected


def test_the_qmasters_clock_offset_is_computed_from_start_and_run_time() -> None:
    said = b"start time:    11/20/2026 22:15:18 (1000)\nrun time [s]:    30\n"

    assert qconf_parser_and_edits.parse_qmaster_clock_offset_s(said, now=1028.0) == 2.0
    assert qconf_parser_and_edits.parse_qmaster_clock_offset_s(b"endpoint is not up\n", now=0.0) is None


ODD = r"x|y&z\w 'q'"


@pytest.mark.parametrize(
    ("file", "before", "edits", "after"),
    [
        (
            "table-sc",
            "slots s INT\nremote old\nremote_x keep\n",
            [SetupEdit(verb=SetupEditVerb.SET_COMPLEX, name="remote", value="remote new")],
            "slots s INT\nremote_x keep\nremote new\n",
        ),
        (
            "table-ssconf",
            "a 1\nparams none\n",
            [SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, attribute="params", value=ODD)],
            f"a 1\nparams {ODD}\n",
        ),
        (
            "host-h",
            "",
            [
                SetupEdit(verb=SetupEditVerb.SET_HOST, name="h", attribute=attribute, value=value)
                for attribute, value in (("load_sensor", "/a"), ("gid_range", "1-9"), ("load_sensor", "/b"))
            ],
            "gid_range 1-9\nload_sensor /b\n",
        ),
        (
            "host-h",
            "#h:\nload_sensor   /a\n\n",
            [SetupEdit(verb=SetupEditVerb.DROP_HOST, name="h", attribute="load_sensor")],
            "",
        ),
        (
            "table-sq",
            "qname  template\nslots   1\nshell  /bin/sh\n",
            [SetupEdit(verb=SetupEditVerb.ADD_QUEUE, name="q", value="qname q\nslots 4")],
            "qname q\nslots 4\nshell  /bin/sh\n",
        ),
    ],
    ids=["complex", "scheduler", "first and later host settings", "last host setting", "queue from a template"],
)
def test_an_edit_changes_only_its_part_of_a_table(
    file: str, before: str, edits: list[SetupEdit], after: str, cell: GridEngineCellAccessSettings
) -> None:
    changed = Path(cell.binaries, "queue" if file == "table-sq" else file)
    if before:
        Path(cell.binaries, file).write_text(before)
    for edit in edits:
        make(edit, cell)

    assert (changed.read_text() if changed.exists() else "") == after


@pytest.mark.parametrize("verb", [SetupEditVerb.SET_COMPLEX, SetupEditVerb.DROP_COMPLEX])
def test_an_unreadable_resource_table_is_not_written_back(
    verb: SetupEditVerb, cell: GridEngineCellAccessSettings
) -> None:
    """`qconf -Mc` deletes every row that its file lacks."""
    status = make(SetupEdit(verb=verb, name="remote", value="remote new"), cell)

    assert status != 0
    assert read(cell, "asked") == "-sc\n"


def attribute_edit(verb: SetupEditVerb, kind: str, name: str, attribute: str, value: str) -> SetupEdit:
    return SetupEdit(verb=verb, kind=kind, name=name, attribute=attribute, value=value)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (SetupEdit(verb=SetupEditVerb.ADMIT, kind="operator", name="gb"), "-ao gb"),
        (SetupEdit(verb=SetupEditVerb.DISMISS, kind="submit", name="h"), "-ds h"),
        (SetupEdit(verb=SetupEditVerb.ADMIT, kind="admin", name="h"), "-ah h"),
        (SetupEdit(verb=SetupEditVerb.DROP_QUEUE, name="q"), "-dq q"),
        (attribute_edit(SetupEditVerb.REPLACE, "queue", "q", "slots", "4"), "-rattr queue slots 4 q"),
        (attribute_edit(SetupEditVerb.MERGE, "queue", "q", "pe_list", "smp"), "-mattr queue pe_list smp q"),
        (attribute_edit(SetupEditVerb.DROP, "exechost", "h", "load", "r=1"), "-dattr exechost load r=1 h"),
    ],
)
def test_a_simple_edit_is_one_qconf_call(edit: SetupEdit, expected: str, cell: GridEngineCellAccessSettings) -> None:
    make(edit, cell)

    assert read(cell, "asked") == f"{expected}\n"
