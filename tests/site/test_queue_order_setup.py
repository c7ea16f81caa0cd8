"""setup order: the sequence numbers of transfer queues by gridbridge.toml and published loads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import safe_files
from gridbridge.site import transfer_queue_setup
from gridbridge.state import published_json
from tests.builders.configurations import queue_text, site_text

SITE = site_text("alpha", "beta", "delta") + queue_text("beta", 9, 4) + queue_text("delta", 9, 4)
KEYS = {"site": 'queue_order = "{order}"', "cluster.beta": "cost = 3", "cluster.delta": "cost = 0.5"}
SWAPPED = {"transfer-beta": "200", "transfer-delta": "100"}


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the home cluster report its queues."""
    there = {"transfer-beta": {"seq_no": "100"}, "transfer-delta": {"seq_no": "200"}}
    home = SimpleNamespace(query_queue_settings=lambda _: there)
    monkeypatch.setattr(transfer_queue_setup, "home_queue_setup_adapter", lambda _: home)


def policy(order: str) -> Policy:
    text = SITE
    for section, key in KEYS.items():
        text = text.replace(f"[{section}]\n", f"[{section}]\n{key.format(order=order)}\n")
    return configuration_file.parse_configuration("FILE", text.encode())


def heard(folder: Path, cluster: str, free: int, *, seconds: float = 1) -> None:
    """Publish a cluster's free slots out of four, as of some seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    told = PublishedClusterAnswer(cluster=cluster, asked_at=at, taken_at=at, pending=0, free_slots=free, slots=4)
    (folder / published_json.CLUSTERS).mkdir(exist_ok=True)
    safe_files.replace_file_atomically(
        f"{folder}/{published_json.CLUSTERS}/{cluster}.json", published_json.encode_published_value(told)
    )


def numbers(order: str, folder: Path) -> dict[str, str]:
    """Return the sequence numbers that setup would change."""
    steps = transfer_queue_setup.plan_queue_sequence_numbers(policy(order), str(folder), f"{folder}/former.json")
    return {one.edit.name: one.edit.value for one in steps}


@pytest.mark.parametrize(
    ("order", "beta", "delta", "expected"),
    [("seq_no", 0, 4, {}), ("wait", 0, 4, SWAPPED), ("wait", 4, 0, {}), ("cost", 4, 0, SWAPPED)],
)
def test_sequence_numbers_follow_the_configured_queue_order(
    tmp_path: Path, order: str, beta: int, delta: int, expected: dict[str, str]
) -> None:
    heard(tmp_path, "beta", beta)
    heard(tmp_path, "delta", delta)

    assert expected == numbers(order, tmp_path)


def test_an_outdated_load_counts_as_no_answer(tmp_path: Path) -> None:
    heard(tmp_path, "beta", 4, seconds=600)
    heard(tmp_path, "delta", 0)

    assert SWAPPED == numbers("wait", tmp_path)
