"""Tests of the parsers of qconf, and of edits that sh runs against a fake qconf."""

import subprocess
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.errors import ParseError
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow, SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccess

FAKE = """#!/bin/sh
# A qconf of one table, one host configuration and one scheduler: they are files here.
cd "${0%/*}" || exit 1
echo "$*" >>asked
case $1 in
-sc | -ssconf | -sq) cat "table$1" ;;
-sconf) cat "host-$2" ;;
-Mc) cat "$2" >table-sc ;;
-Msconf) cat "$2" >table-ssconf ;;
-Aq) cat "$2" >queue ;;
-Aconf | -Mconf) cat "$2" >"host-${2##*/}" ;;
-dconf) rm "host-$2" ;;
esac
"""


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccess:
    (tmp_path / "qconf").write_text(FAKE)
    (tmp_path / "qconf").chmod(0o755)
    return GridEngineCellAccess(
        root="/var/lib/gridengine",
        cell="beta",
        qmaster_port="6454",
        execd_port="6455",
        binaries=str(tmp_path),
        timeout_s=5,
    )


def make(edit: SetupEdit, cell: GridEngineCellAccess) -> int:
    environment = qconf_parser_and_edits.cell_environment_shell_line(cell)
    line = f"{environment}; {qconf_parser_and_edits.setup_edit_shell_line(edit)}"
    return subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.DEVNULL, check=False).returncode


def read(cell: GridEngineCellAccess, name: str) -> str:
    return Path(cell.binaries, name).read_text()


def write(cell: GridEngineCellAccess, name: str, text: str) -> None:
    Path(cell.binaries, name).write_text(text)


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
    assert expected.row == "remote rm BOOL == YES NO 0 0"


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


def test_a_complex_is_replaced_and_other_complexes_stay(cell: GridEngineCellAccess) -> None:
    write(cell, "table-sc", "slots s INT\nremote old\nremote_x keep\n")

    make(SetupEdit(verb=SetupEditVerb.SET_COMPLEX, name="remote", value="remote new"), cell)

    assert read(cell, "table-sc") == "slots s INT\nremote_x keep\nremote new\n"


@pytest.mark.parametrize("verb", [SetupEditVerb.SET_COMPLEX, SetupEditVerb.DROP_COMPLEX])
def test_an_unreadable_resource_table_is_not_written_back(verb: SetupEditVerb, cell: GridEngineCellAccess) -> None:
    """`qconf -Mc` deletes every row that its file lacks."""
    status = make(SetupEdit(verb=verb, name="remote", value="remote new"), cell)

    assert status != 0
    assert read(cell, "asked") == "-sc\n"


def test_special_characters_in_a_scheduler_value_are_kept(cell: GridEngineCellAccess) -> None:
    write(cell, "table-ssconf", "a 1\nparams none\n")

    make(SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, attribute="params", value=r"x|y&z\w 'q'"), cell)

    assert read(cell, "table-ssconf") == "a 1\n" + r"params x|y&z\w 'q'" + "\n"


def test_a_host_configuration_is_created_and_then_changed(cell: GridEngineCellAccess) -> None:
    make(SetupEdit(verb=SetupEditVerb.SET_HOST, name="h", attribute="load_sensor", value="/a"), cell)
    make(SetupEdit(verb=SetupEditVerb.SET_HOST, name="h", attribute="gid_range", value="1-9"), cell)
    make(SetupEdit(verb=SetupEditVerb.SET_HOST, name="h", attribute="load_sensor", value="/b"), cell)

    assert read(cell, "host-h") == "gid_range 1-9\nload_sensor /b\n"


def test_a_host_configuration_is_deleted_with_its_last_setting(cell: GridEngineCellAccess) -> None:
    write(cell, "host-h", "#h:\nload_sensor   /a\n\n")

    make(SetupEdit(verb=SetupEditVerb.DROP_HOST, name="h", attribute="load_sensor"), cell)

    assert not Path(cell.binaries, "host-h").exists()


def test_a_new_queue_is_the_template_with_changed_values(cell: GridEngineCellAccess) -> None:
    write(cell, "table-sq", "qname  template\nslots   1\nshell  /bin/sh\n")

    make(SetupEdit(verb=SetupEditVerb.ADD_QUEUE, name="q", value="qname q\nslots 4"), cell)

    assert read(cell, "queue") == "qname q\nslots 4\nshell  /bin/sh\n"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (SetupEdit(verb=SetupEditVerb.ADMIT, kind="operator", name="gb"), "-ao gb"),
        (SetupEdit(verb=SetupEditVerb.DISMISS, kind="submit", name="h"), "-ds h"),
        (SetupEdit(verb=SetupEditVerb.ADMIT, kind="admin", name="h"), "-ah h"),
        (SetupEdit(verb=SetupEditVerb.DROP_QUEUE, name="q"), "-dq q"),
        (
            SetupEdit(verb=SetupEditVerb.REPLACE, kind="queue", name="q", attribute="slots", value="4"),
            "-rattr queue slots 4 q",
        ),
        (
            SetupEdit(verb=SetupEditVerb.MERGE, kind="queue", name="q", attribute="pe_list", value="smp"),
            "-mattr queue pe_list smp q",
        ),
        (
            SetupEdit(verb=SetupEditVerb.DROP, kind="exechost", name="h", attribute="complex_values", value="r=1"),
            "-dattr exechost complex_values r=1 h",
        ),
    ],
)
def test_a_simple_edit_is_one_qconf_call(edit: SetupEdit, expected: str, cell: GridEngineCellAccess) -> None:
    make(edit, cell)

    assert read(cell, "asked") == f"{expected}\n"
