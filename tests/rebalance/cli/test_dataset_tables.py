"""Printed datasets: a record may contain any bytes, because the owner can change the record."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica, RefusedAreaOrDataset
from gridbridge.rebalance.cli import dataset_report
from gridbridge.rebalance.cli.dataset_report import DatasetReport
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ODD = "a\x1b[2J\nb"
REPLICAS = (
    DatasetReplica(storage=ODD, size_bytes=1, is_whole=True, checked_at=NOW),
    DatasetReplica(storage=f"{ODD}b", size_bytes=0, is_whole=False, checked_at=NOW, why=ODD),
)
DATASET = Dataset(name="reads", path=ODD, is_tree=True, files=1, size_bytes=1, sha256="", wished=1, replicas=REPLICAS)
OUTCOME = DatasetAndRefusedAreas(dataset=DATASET, refused=(RefusedAreaOrDataset(what=ODD, reason=ODD),), is_done=False)
TELLS: dict[str, Callable[[], int]] = {
    "why": lambda: dataset_report.print_dataset_report(
        DatasetReport(dataset=DATASET, name="bob/reads", done=()), NOW, is_json=False
    ),
    "list": lambda: dataset_report.print_datasets([DATASET], is_json=False),
    "verify": lambda: dataset_report.print_replicas(OUTCOME, NOW, is_json=False),
    "replicate": lambda: dataset_report.print_dataset_outcome(OUTCOME),
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
