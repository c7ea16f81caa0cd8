"""A running job gets a file with further tasks, after root's ledger has the tasks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import ArrayTasksAlreadyInLedger
from gridbridge.model.campaigns.campaign_file_and_array_names import CampaignArrayId
from gridbridge.privileged import as_user_refusals_and_user_switch, tasks_of_running_jobs
from tests.privileged.test_as_user_steps import BETA, HEADER

Add = Callable[[dict[int, str]], str]


class OwnWorker:
    """The process of the owner, as a part of this process."""

    def __init__(self, _uid: int, begin: Callable[[str], Callable[[list[str]], str]]) -> None:
        self._answers = begin("alice")

    def send_request_to_owner_process(self, *words: str) -> str:
        return self._answers([*words])


@pytest.fixture(name="add")
def _add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Return a function that gives tasks to jobs of array 3, by index; its two jobs have tasks 0 and 1."""
    header = HEADER | {"clusters": {"beta": BETA | {"exec_directory": f"{tmp_path}/a b"}}}
    lines = [json.dumps(header), *(f"name{number} 'it''s'" for number in range(10))]
    (tmp_path / "c.12").write_text("\n".join((*lines, "")))
    (tmp_path / "a b" / "campaign.12").mkdir(parents=True)
    files = RootVerifiedCampaignFiles(12, str(tmp_path))
    monkeypatch.setattr(tasks_of_running_jobs, "RootVerifiedCampaignFiles", lambda _: files)
    monkeypatch.setattr(tasks_of_running_jobs, "CampaignOwnerWorker", OwnWorker)
    for name in ("require_ordinary_account", "require_existing_account"):
        monkeypatch.setattr(as_user_refusals_and_user_switch, name, lambda *_: None)

    def add(tasks: dict[int, str]) -> str:
        order: Any = SimpleNamespace(
            arrays=(CampaignArrayId("alpha", 12, 3),) * len(tasks),
            places=(*tasks,),
            tasks=(*tasks.values(),),
            config={},
            cluster="beta",
            campaign=12,
            file="c.12",
            is_of_copies=False,
            checkpoint_s=0,
            access_and_account_of_user=lambda _: (SimpleNamespace(login=None), ""),
        )
        with RootLedgerOfSubmittedTasks(12, str(tmp_path / "ledger")) as ledger:
            if not ledger.has_campaign_file:
                files.record_file_in_ledger(ledger)
                ledger.record_array(3, "beta", "0-1:1", settings=("group=1,60,60",))
                ledger.record_job_id_of_array(3, "71")
            return tasks_of_running_jobs.add_tasks_to_running_jobs(order, ledger)

    return add


def test_each_running_job_gets_its_own_file_once(add: Add, tmp_path: Path) -> None:
    """Job 2 has left no record, so the folder may be that of something else."""
    folder = tmp_path / "a b" / "campaign.12"
    (folder / "group.3.1").touch()

    assert add({1: "4-5:1", 2: "6:1"}) == ""
    with pytest.raises(ArrayTasksAlreadyInLedger):
        add({1: "5:1"})

    assert sorted(os.listdir(folder)) == ["group.3.1", "more.3.1.4"]
    text = (folder / "more.3.1.4").read_text()
    assert [f"gb_number={n}" in text for n in range(4, 7)] == [True, True, False]
    assert (tmp_path / "ledger" / "c.12").read_text().splitlines()[-2:] == ["more 3 1 4-5:1", "more 3 2 6:1"]


def test_no_file_is_written_without_room_for_the_ledgers_line(
    add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b" / "campaign.12" / "group.3.1").touch()
    add({1: "4:1"})
    write = os.write
    monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:7] if data.startswith(b"more") else data))

    with pytest.raises(OSError, match="No space left"):
        add({1: "5:1"})

    assert not (tmp_path / "a b" / "campaign.12" / "more.3.1.5").exists()
