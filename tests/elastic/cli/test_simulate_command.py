"""`gridbridge simulate`: tables, JSON, pictures, and errors about files and options."""

import bz2
import gzip
import json
import lzma
import os
import shlex
import tarfile
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from matplotlib import image

from gridbridge.cli.main import gridbridge
from gridbridge.errors import ParseError, StandardOutputUnwritable, StateError
from gridbridge.shell import safe_files
from tests.elastic.simulation.test_workloads import record

GOLDEN = Path(__file__).parents[2] / "golden"
SWF = GOLDEN / "workloads" / "small.swf"
NEVER_STARTED = record(started="0", ended="0", failed="1")
WEEK = ("--synthetic", "ash", "--days", "0.3", "--max-nodes", "4")


def simulate(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("simulate", *words))


def replayed(path: Path, policy: str = "always-on") -> dict[str, Any]:
    (found,) = json.loads(simulate("--accounting", str(path), "--json", "--policy", policy).stdout)
    assert isinstance(found, dict)
    return found


def test_policies_are_compared_in_a_table() -> None:
    done = simulate(*WEEK, "--policy", "demand", "--policy", "always-on")
    told, head, *rows = done.stdout.splitlines()

    assert done.exit_code == 0
    assert told.startswith("ash: ")
    assert head.split()[:2] == ["policy", "wait"]
    assert [row.split()[0] for row in rows] == ["demand", "always-on"]


def test_both_workload_formats_are_read_and_skipped_tasks_are_counted() -> None:
    swf = replayed(SWF, "demand")
    gridengine = replayed(GOLDEN / "gridengine-8.1.9" / "accounting.txt", "demand")

    left_out = {"a part of another task": 2, "cancelled before they started": 1}
    assert (swf["tasks"], swf["left_out"], swf["outcomes"][0]["policy"]) == (3, left_out, "demand")
    assert (gridengine["tasks"], gridengine["left_out"]) == (8, {"put back to run again": 1})


def test_bad_lines_are_reported_by_number(tmp_path: Path) -> None:
    path = tmp_path / "some.swf"
    path.write_bytes(SWF.read_bytes() + b"nonsense\n1 2 3\n")
    done = simulate("--accounting", str(path), "--policy", "demand")

    assert done.exit_code == 0
    assert done.stderr == (
        f"gridbridge: {path}: 1 line with no known form is left out: 10\n"
        f"gridbridge: {path}: 1 line with a wrong number of fields is left out: 11\n"
    )


def test_a_line_over_1_mib_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "some.swf"
    long = b"x" * (3 * safe_files.LONGEST) + b"\n"
    path.write_bytes(long + SWF.read_bytes() + long + long)
    done = simulate("--accounting", str(path), "--json", "--policy", "demand")

    assert done.stderr == (f"gridbridge: {path}: 3 lines with more than 1 MiB are left out: 1, 11, 12\n")
    (found,) = json.loads(done.stdout)
    assert (found["tasks"], found["bad_lines"]) == (3, [1, 11, 12])


def in_tar(data: bytes) -> bytes:
    whole = BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        entry = tarfile.TarInfo("some.swf")
        entry.size = len(data)
        archive.addfile(entry, BytesIO(data))
    return whole.getvalue()


@pytest.mark.parametrize(
    ("pack", "packer"),
    [
        (bz2.compress, "bzip2"),
        (lambda data: b"\x28\xb5\x2f\xfd" + data, "zstd"),
        (in_tar, "tar"),
        (lambda data: gzip.compress(in_tar(data)), "tar"),
    ],
    ids=["bzip2", "zstd", "tar", "tar in gzip"],
)
def test_the_error_names_a_wrong_compression(tmp_path: Path, pack: Callable[[bytes], bytes], packer: str) -> None:
    path = tmp_path / "some"
    path.write_bytes(pack(SWF.read_bytes()))
    done = simulate("--accounting", str(path))

    right = "expected a text file, or a file compressed by gzip or xz"
    assert isinstance(done.exception, ParseError)
    assert str(done.exception) == f"{path}: compressed by {packer}; {right}"


@pytest.mark.parametrize(
    "pack", [gzip.compress, lzma.compress, lambda data: b"\xef\xbb\xbf" + data], ids=["gzip", "xz", "marked"]
)
def test_a_workload_file_may_be_compressed_or_have_a_byte_order_mark(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "some"
    path.write_bytes(pack(b"\n" + SWF.read_bytes() + b"nonsense\n"))
    found = replayed(path)

    assert (found["tasks"], found["bad_lines"]) == (3, [11])


def test_a_workload_is_read_from_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(SWF.read_bytes(),), daemon=True)
    writer.start()

    assert replayed(path)["tasks"] == 3


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(SWF.read_bytes())[:-20], ParseError),
        (lzma.compress(SWF.read_bytes())[:-20], ParseError),
        (gzip.compress(SWF.read_bytes())[:12] + b"x" * 99, ParseError),
        (lzma.compress(SWF.read_bytes())[:24] + b"x" * 99, ParseError),
        (gzip.compress(SWF.read_bytes()) + b"x", StateError),
    ],
    ids=["cut off", "xz cut off", "damaged", "xz damaged", "with a tail"],
)
def test_a_damaged_compressed_file_is_a_one_line_error(tmp_path: Path, content: bytes, kind: type[Exception]) -> None:
    path = tmp_path / "some.gz"
    path.write_bytes(content)
    done = simulate("--accounting", str(path))

    assert isinstance(done.exception, kind)
    assert str(done.exception).startswith(f"{path}: ")
    assert "None" not in str(done.exception)


@pytest.mark.parametrize(
    ("content", "words", "kind", "right"),
    [
        (None, (), StateError, "No such file or directory"),
        (b"", (), ParseError, "no task can be read"),
        (b"#\nnonsense\n", (), ParseError, "no task can be read, line 2 has no known form"),
        (NEVER_STARTED * 2, (), ParseError, "no task of the file ran: 2 never started"),
        (SWF.read_bytes(), ("--to", "2020-01-01"), ParseError, "between --from and --to"),
        (
            SWF.read_bytes().replace(b"  8 ", b" 80 "),
            ("--from", "2026-01-01T00:03", "--max-nodes", "1"),
            ParseError,
            "no task fits into 1 node of 8 slots each",
        ),
    ],
    ids=["none", "empty", "another", "never started", "another time", "too wide"],
)
def test_a_workload_without_tasks_is_a_one_line_error(
    tmp_path: Path, content: bytes | None, words: tuple[str, ...], kind: type[Exception], right: str
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    done = simulate("--accounting", str(path), *words)

    assert isinstance(done.exception, kind)
    assert str(done.exception).startswith(str(path))
    assert right in str(done.exception)


WRONG = Path(__file__).with_name("wrong_options.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize(("line", "words"), [line.split(" | ") for line in WRONG])
def test_wrong_options_are_usage_errors(line: str, words: str) -> None:
    done = simulate(*(word.replace("SWF", str(SWF)) for word in shlex.split(line)))

    assert done.exit_code == 2
    assert words in done.stderr


def test_a_synthetic_workload_without_tasks_is_an_error() -> None:
    done = simulate("--synthetic", "ash", "--days", "0.01", "--tasks-a-day", "1")

    assert isinstance(done.exception, ParseError)
    assert str(done.exception) == "ash: no task in 0.01 days with 1 tasks a day"


@pytest.mark.parametrize("sweep", [(), ("--sweep",)], ids=["over time", "sweep"])
def test_the_picture_has_content(tmp_path: Path, sweep: tuple[str, ...]) -> None:
    path = tmp_path / "picture.png"
    done = simulate(*WEEK, "--policy", "squeeze", *sweep, "--plot", str(path))

    assert done.exit_code == 0
    assert done.stderr == f"gridbridge: {path} is written\n"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [one.name for one in tmp_path.iterdir()] == ["picture.png"]
    pixels = image.imread(path)[:, :, :3]
    assert (pixels.max(axis=2) - pixels.min(axis=2) > 0.02).mean() > 0.0005


@pytest.mark.parametrize(("name", "why"), [("none/picture.png", "No such file or directory"), ("a.png", "is a folder")])
def test_an_unwritable_picture_is_refused_before_the_replay(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "a.png").mkdir()
    done = simulate("--accounting", "/nosuch", "--plot", f"{tmp_path}/{name}")

    assert isinstance(done.exception, StandardOutputUnwritable)
    assert str(done.exception) == f"{tmp_path}/{name}: {why}"


def test_a_sweep_marks_the_frontier() -> None:
    policies = ("--policy", "squeeze", "--policy", "starcluster", "--policy", "always-on")
    done = simulate(*WEEK, *policies, "--sweep", "--json")
    (found,) = json.loads(done.stdout)
    outcomes = found["outcomes"]

    assert (len(outcomes), {outcome["is_best"] for outcome in outcomes}) == (8, {True, False})
    assert {outcome["settings"] for outcome in outcomes} >= {"minimal_reserve 1, target_reserve 2"}


@pytest.mark.parametrize(("path", "right"), [("/dev/zero", ":1: more than"), ("/dev/urandom", "no task can be read")])
def test_an_endless_file_is_refused(path: str, right: str) -> None:
    done = simulate("--accounting", path)

    assert isinstance(done.exception, ParseError)
    assert f"{path}" in str(done.exception)
    assert right in str(done.exception)
