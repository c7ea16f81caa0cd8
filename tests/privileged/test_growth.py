"""The cost of sending an array does not grow with its campaign.

Measured are bytes read, hashed and searched, and executed Python lines.
"""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.store import campaign_file_verification
from gridbridge.campaigns.store.campaign_file_lines import read_lines_by_number
from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, CampaignArrayId
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks
from gridbridge.shell import safe_files
from tests.steps import steps

SIZE = 100  # tasks of an array
FEW, MANY = 1000, 10_000  # tasks of a campaign
AT = {"exec_file": "run", "slots": 1, "nodes": 1, "environment": "", "walltime_s": 60}


class CountedFile(io.BytesIO):
    """A file with a count of the bytes that were read."""

    read_bytes = 0

    def read(self, most: int | None = -1) -> bytes:
        return self._count(super().read(most))

    def readline(self, most: int | None = -1) -> bytes:
        return self._count(super().readline(most))

    def _count(self, data: bytes) -> bytes:
        self.read_bytes += len(data)
        return data


class Site:
    """A campaign whose arrays were all sent except the last arrays."""

    def __init__(self, folder: Path, tasks: int, arrays: int = 1) -> None:
        folder.mkdir()
        self._folder, self._arrays = folder, range(tasks // SIZE - arrays, tasks // SIZE)
        header = {"name": "n", "clusters": {"beta": AT}, UNIQUE: "1"}
        lines = (json.dumps(header), *(f"case-{n} --seed {n}" for n in range(tasks)))
        self.whole = "".join(f"{line}\n" for line in lines).encode()
        (folder / "c.12").write_bytes(self.whole)
        with self.ledger() as ledger:
            RootVerifiedCampaignFiles(12, str(folder)).record_file_in_ledger(ledger)
            for number in range(self._arrays[0]):
                ledger.record_array(number + 1, "beta", self.tasks(number))
                ledger.record_job_id_of_array(number + 1, str(number + 1))

    @staticmethod
    def tasks(number: int) -> str:
        return f"{number * SIZE}-{number * SIZE + SIZE - 1}:1"

    def ledger(self) -> RootLedgerOfSubmittedTasks:
        return RootLedgerOfSubmittedTasks(12, str(self._folder / "ledger"))

    def content(self, ledger: RootLedgerOfSubmittedTasks) -> VerifiedCampaignTasks:
        order = SimpleNamespace(
            arrays=tuple(CampaignArrayId("alpha", 12, number + 1) for number in self._arrays),
            tasks=tuple(map(self.tasks, self._arrays)),
            cluster="beta",
            campaign=12,
            file="c.12",
            section={},
            is_of_copies=False,
            is_ordinary=False,
            checkpoint_s=0,
            group=(1, 0, 0),
        )
        brought = RootVerifiedCampaignFiles(12, str(self._folder))
        brought.record_file_in_ledger(ledger)
        return VerifiedCampaignTasks(cast("AsUserArrayArguments", order), brought, ledger)

    def send(self, content: VerifiedCampaignTasks, ledger: RootLedgerOfSubmittedTasks, place: int) -> None:
        number = self._arrays[place] + 1
        assert ledger.arrays_with_same_tasks(number, self.tasks(number - 1)) == []
        ledger.record_array(number, "beta", self.tasks(number - 1))
        ledger.record_job_id_of_array(number, str(number))
        array = CampaignArrayId("alpha", 12, number)
        assert content.array_job_spec(array, content.script_tasks_of_array(place), "alice").tasks == SIZE


@pytest.mark.parametrize("arrays", [1, 10])
def test_one_call_reads_and_hashes_the_campaign_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: int
) -> None:
    site = Site(tmp_path / "site", FEW, arrays)
    read = Mock(wraps=safe_files.read_file_only_owner_writes)
    sha256 = Mock(wraps=campaign_file_verification.hashlib.sha256)
    monkeypatch.setattr(campaign_file_verification.safe_files, "read_file_only_owner_writes", read)
    monkeypatch.setattr(campaign_file_verification.hashlib, "sha256", sha256)
    with site.ledger() as ledger:
        content = site.content(ledger)
        for place in range(arrays):
            site.send(content, ledger, place)

    assert read.call_count == 1
    sha256.assert_called_once_with(site.whole)


@pytest.mark.parametrize("tasks", [FEW, MANY])
@pytest.mark.parametrize("step", [1, 7, 50], ids=["in a row", "near", "far apart"])
def test_each_byte_of_the_campaign_file_is_searched_once(tmp_path: Path, tasks: int, step: int) -> None:
    whole = Site(tmp_path / "site", tasks).whole
    file, wanted = CountedFile(whole), list(range(tasks - 1, 0, -step))[::-1]

    found = read_lines_by_number(file, (n + 1 for n in wanted))

    assert dict(found) == {n + 1: f"case-{n} --seed {n}".encode() for n in wanted}
    assert file.read_bytes == len(whole)


def test_executed_python_lines_do_not_grow_with_the_campaign(tmp_path: Path) -> None:
    """Both verifying the file and sending an array are counted."""
    took = []
    for tasks in (FEW, MANY):
        site = Site(tmp_path / str(tasks), tasks, arrays=2)
        with site.ledger() as ledger:
            content = site.content(ledger)
            site.send(content, ledger, 0)
            another = steps(lambda: site.send(content, ledger, 1))  # noqa: B023 - done at once
        with site.ledger() as ledger:
            reading = steps(lambda: site.content(ledger))  # noqa: B023 - done at once
        took.append((reading, another))

    few, many = took
    assert many[0] <= 1.2 * few[0]
    assert many[1] <= 1.01 * few[1]  # numbers have more digits


def test_reading_the_ledger_grows_linearly(tmp_path: Path) -> None:
    sites = [Site(tmp_path / str(tasks), tasks) for tasks in (FEW, MANY)]

    def first(site: Site) -> int:
        def once() -> None:
            with site.ledger() as ledger:
                ledger.arrays_with_same_tasks(1000, site.tasks(500))

        return steps(once)

    few, many = map(first, sites)
    assert many <= 10 * few * 1.2
