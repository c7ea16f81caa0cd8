"""gridbridge data: output, exit statuses, and errors of one line."""

import json
import os
import pwd
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from gridbridge.cli import main, output_and_errors
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.rebalance.datasets import DatasetReplica, RefusedAreaOrDataset
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.rebalance.cli import dataset_report
from gridbridge.rebalance.cli.dataset_report import DatasetReport
from gridbridge.rebalance.replicas import delegated_datasets, owner_datasets
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas
from gridbridge.state.published_json import publish_rebalance_round_begin
from tests.builders.command_lines import exit_status
from tests.builders.configurations import site_text
from tests.rebalance.mover.areas import Carrier, made_dataset

TOML = f"{site_text('alpha')}[rebalance]\nmin_free_bytes = 0\nfull_free_bytes = 0\n"
AREA = '[storage.{name}]\ncluster = "alpha"\npath = "{path}"\n'


class Shell:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def data(self, *words: str, usual: bool = False) -> tuple[int, str, str]:
        """Return a command's exit status, output and errors; `usual`: use the default folder of records."""
        records = () if usual else ("--records", f"{self.folder}/records")
        files = ("--config", f"{self.folder}/toml", *records)
        command = partial(main.gridbridge, obj=FixedPaths(published=str(self.folder)))
        program = partial(output_and_errors.run_command_reporting_errors, command, "gridbridge")
        return exit_status(program, "gridbridge", "data", *words, *files), *self._capsys.readouterr()


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    areas = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        areas.append(AREA.format(name=name, path=tmp_path / name))
    (tmp_path / "toml").write_text(TOML + "".join(areas))
    (tmp_path / "ref.fa").write_text("ACGT")
    real = owner_datasets.open_owner_datasets
    monkeypatch.setattr(owner_datasets, "open_owner_datasets", lambda *given: real(*given, carry=Carrier()))
    return Shell(tmp_path, capsys)


@pytest.fixture
def usual(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> str:
    """Move the default folder of records into the test's folder; return the path of the original."""
    home = pwd.getpwuid(os.geteuid()).pw_dir
    monkeypatch.setattr(owner_datasets, "RECORDS", os.path.relpath(f"{shell.folder}/usual", home))
    return f"{shell.folder}/ref.fa"


def test_the_commands_of_a_datasets_life_from_add_to_drop(shell: Shell) -> None:
    path = f"{shell.folder}/ref.fa"

    added = "ref: 1 file, 4 B, 2 of 2 replicas whole: one, two\n"
    assert shell.data("add", "ref", path, "--replicas", "2") == (0, added, "")
    status, out, _ = shell.data("verify", "ref")
    assert (0, "one") == (status, out.splitlines()[2].split()[0])
    assert ["alpha", "4", "yes"] == out.splitlines()[2].split()[1:4]
    status, out, _ = shell.data("list")
    assert ["ref", "4", "1", "2", "2", "one,two", path] == out.splitlines()[1].split()
    assert shell.data("drop", "ref", "--storage", "one") == (0, "ref: 1 file, 4 B, 1 of 2 replicas whole: two\n", "")
    assert 0 == shell.data("replicate", "ref")[0]
    assert 1 == shell.data("drain", "two")[0]
    assert shell.data("drop", "ref") == (0, f"ref: dropped; {path} is unchanged\n", "")
    assert shell.data("drain", "two") == (0, "two: no replica of yours in this area\n", "")


def test_a_replica_in_a_shared_area_is_shown_at_all_clusters_of_the_area(shell: Shell) -> None:
    beta = "[cluster.beta]\nqmaster_port = 3\nexecd_port = 4\n"
    area = f'[storage.shared]\nclusters = {{ alpha = "{shell.folder}/one", beta = "/mnt/one" }}\n'
    (shell.folder / "toml").write_text(f"{TOML}{beta}{area}")

    added = "ref: 1 file, 4 B, 1 of 1 replica whole: shared (alpha and beta)\n"
    assert (0, added, "") == shell.data("add", "ref", f"{shell.folder}/ref.fa")
    assert ["shared", "alpha,beta", "4", "yes"] == shell.data("verify", "ref")[1].splitlines()[2].split()[:4]
    assert ["alpha", "beta"] == json.loads(shell.data("list", "--json")[1])[0]["replicas"][0]["clusters"]


def test_a_dataset_is_copied_into_an_object_store_and_back(shell: Shell) -> None:
    program = shell.folder / "store"
    objects = f'"{shell.folder}/objects/$2"'
    program.write_text(
        f"#!/bin/sh\ncase $1 in\nput) mkdir -p {objects} && rmdir {objects} && cp $3 {objects} ;;\n"
        f"stat) [ -e {objects} ] || exit 66; stat -c %s {objects} ;;\nget) cp {objects} $3 ;;\n"
        f"remove) rm -f {objects} ;;\nesac\n"
    )
    program.chmod(0o755)
    with (shell.folder / "toml").open("a") as file:
        file.write(f'[storage.archive]\nkind = "command"\nprogram = "{program}"\n')
    shell.data("add", "ref", f"{shell.folder}/ref.fa", "--replicas", "2")

    told = "ref: 1 file, 4 B, 3 of 2 replicas whole: archive, one, two\n"
    assert (0, told, "") == shell.data("replicate", "ref", "--to", "archive")
    for area in ("one", "two"):
        shell.data("drop", "ref", "--storage", area)
    (shell.folder / "ref.fa").unlink()
    assert ["archive", "-", "4", "yes"] == shell.data("verify", "ref")[1].splitlines()[2].split()[:4]
    assert 0 == shell.data("replicate", "ref", "--to", "two")[0]
    assert ["ACGT"] == [path.read_text() for path in (shell.folder / "two").rglob("ref.fa")]
    program.write_text("#!/bin/sh\necho 'the store is down' >&2; exit 1\n")
    status, out, err = shell.data("drain", "archive")
    assert (1, "") == (status, err)
    assert f"  not archive: {program} remove: the store is down; --lost forgets the replica\n" in out


def test_verify_reports_each_replica_as_json(shell: Shell) -> None:
    shell.data("add", "ref", f"{shell.folder}/ref.fa", "--replicas", "2")
    (hurt,) = (shell.folder / "one").rglob("ref.fa")
    hurt.write_text("ACGA")

    status, out, _ = shell.data("verify", "ref", "--json")
    one, two = json.loads(out)["replicas"]

    assert 1 == status
    assert {"storage", "clusters", "bytes", "whole", "checked_at", "why"} == set(one)
    assert ("one", ["alpha"], 4, False) == (one["storage"], one["clusters"], one["bytes"], one["whole"])
    assert ("two", 4, True, None) == (two["storage"], two["bytes"], two["whole"], two["why"])
    assert json.loads(shell.data("list", "--json")[1])[0]["replicas"] == [one, two]


def test_add_with_fewer_replicas_than_requested_ends_with_1_and_prints_the_reasons(shell: Shell) -> None:
    (shell.folder / "two").rmdir()

    status, out, err = shell.data("add", "ref", f"{shell.folder}/ref.fa", "--replicas", "3")

    assert (1, "") == (status, err)
    assert "ref: 1 file, 4 B, 1 of 3 replicas whole: one\n" in out
    assert f"  not two: {shell.folder}/two: no such folder\n" in out


def test_drain_reports_a_faulty_dataset_and_continues_with_other_datasets(shell: Shell) -> None:
    for name in ("ref", "also"):
        shell.data("add", name, f"{shell.folder}/ref.fa")
        shell.data("replicate", name, "--to", "two")
    (shell.folder / "records/also.json").write_text("?")

    status, out, err = shell.data("drain", "two")

    assert (1, "") == (status, err)
    assert f"not also: {shell.folder}/records/also.json: invalid record of a dataset" in out
    assert "ref: 1 file, 4 B, 1 of 1 replica whole: one\n" in out


@pytest.mark.parametrize("verb", ["add", "replicate"])
def test_a_dataset_is_delegated_to_the_service_before_its_first_copy(
    shell: Shell, usual: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    let: list[str] = []

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(delegated_datasets, "delegate_dataset_or_why_not", lambda name, _: let.append(name) or "")
    if verb == "replicate":
        shell.data("add", "ref", usual, "--later", usual=True)
        let.clear()
    monkeypatch.setattr(Carrier, "__call__", die)
    shell.data(verb, "ref", *([usual] if verb == "add" else []), usual=True)

    assert ["ref"] == let


def test_drop_revokes_a_datasets_delegation_even_if_a_replica_can_not_be_removed(
    shell: Shell, usual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let: list[str] = []
    monkeypatch.setattr(delegated_datasets, "delegate_dataset_or_why_not", lambda name, _: let.append(name) or "")
    monkeypatch.setattr(delegated_datasets, "try_revoke_dataset_delegation", let.remove)
    shell.data("add", "ref", usual, "--replicas", "2", usual=True)
    shell.data("drop", "ref", "--storage", "one", usual=True)
    was = list(let)
    (shell.folder / "two").rename(shell.folder / "away")
    status, _, _ = shell.data("drop", "ref", usual=True)

    assert (["ref"], 1, []) == (was, status, let)


@pytest.mark.parametrize(
    ("is_usual", "let", "begun", "why"),
    [
        (False, "", True, "the dataset's record is not in the default folder"),
        (True, "/x: no such folder", True, "/x: no such folder"),
        (True, "", False, "no round about datasets (gridbridge rebalance data) has ever run at this site"),
        (True, "", True, ""),
    ],
)
def test_add_later_warns_if_the_service_will_not_make_the_replicas(
    shell: Shell, usual: str, monkeypatch: pytest.MonkeyPatch, is_usual: bool, let: str, begun: bool, why: str
) -> None:
    monkeypatch.setattr(delegated_datasets, "delegate_dataset_or_why_not", lambda *_: let)
    if begun:
        publish_rebalance_round_begin(RebalanceRoundKind.DATASETS, datetime(2026, 1, 1, tzinfo=UTC), str(shell.folder))
    status, _, err = shell.data("add", "ref", usual, "--later", usual=is_usual)

    mend = "run gridbridge data replicate ref"
    told = f"gridbridge: nobody will make the replicas of ref: {why}; {mend}\n"
    assert (0, told if why else "") == (status, err)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "../x", "ref.fa"), "'../x': invalid name of a dataset; expected at most 100 letters, digits, _ . + "),
        (("add", "x", "/dev/null"), "/dev/null: neither a file nor a folder; expected a readable"),
        (("add", "x", "/x", "--replicas", "many"), "'many' is not a valid integer"),
        (("add", "x"), "Missing argument 'PATH'"),
        (("verify", "x"), "x: no dataset of yours; your datasets: none"),
        (("drop", "x\n"), r"'x\n': invalid name of a dataset"),
        (("drain", "y"), "y: no storage area; expected one or two"),
        (("list",), "/records: no such folder; `gridbridge data add --records` makes a folder"),
    ],
)
def test_invalid_input_ends_with_2_and_one_line_of_error(shell: Shell, words: tuple[str, ...], told: str) -> None:
    status, out, err = shell.data(*words)

    assert (2, "") == (status, out)
    assert told in err
    assert 1 == len(err.splitlines())


def test_without_a_storage_area_add_names_the_missing_section(shell: Shell) -> None:
    (shell.folder / "toml").write_text(TOML)

    refused = "gridbridge: gridbridge.toml: no storage area; expected a section [storage.NAME]\n"
    assert shell.data("add", "ref", f"{shell.folder}/ref.fa")[::2] == (2, refused)


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ODD = "a\x1b[2J\nb"
REPLICAS = (
    DatasetReplica(storage=ODD, size_bytes=1, is_whole=True, checked_at=NOW),
    DatasetReplica(storage=f"{ODD}b", size_bytes=0, is_whole=False, checked_at=NOW, why=ODD),
)
DATASET = made_dataset(path=ODD, replicas=REPLICAS)
OUTCOME = DatasetAndRefusedAreas(dataset=DATASET, refused=(RefusedAreaOrDataset(what=ODD, reason=ODD),), is_done=False)
TELLS: dict[str, Callable[[], int]] = {
    "why": lambda: dataset_report.print_dataset_report(
        DatasetReport(dataset=DATASET, name="bob/reads", done=(), clusters={}), NOW, is_json=False
    ),
    "list": lambda: dataset_report.print_datasets([DATASET], {}, is_json=False),
    "verify": lambda: dataset_report.print_replicas(OUTCOME, {}, NOW, is_json=False),
    "replicate": lambda: dataset_report.print_dataset_outcome(OUTCOME, {}),
}


@pytest.mark.parametrize("tell", TELLS.values(), ids=TELLS)
def test_a_dataset_record_can_not_print_control_characters(
    tell: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    tell()
    told = capsys.readouterr().out

    assert "[2J" in told
    assert all(line.isprintable() for line in told.split("\n"))
    assert not [line for line in told.split("\n") if line.startswith("b")]
