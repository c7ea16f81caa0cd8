"""Root's cost of sending arrays of 1000 tasks, in campaigns of 1,000,000 and 2,000 tasks.

Times are of CPU, the fastest of some. A call begins an interpreter, reads and checks the campaign's
file, and notes each array in root's ledger, which has all arrays before. What the cluster's own
programs take is left out: that is the same however long the campaign is.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

from bench.brief import sized
from bench.rows import Row
from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, CampaignArrayId
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks

SIZE, FEW, RUNS = 1000, 2000, sized(9, 2)  # tasks of an array, tasks of the short campaign, runs
LAST = 2  # arrays that a call sends
MOST_CALLS, MOST_TIMES = 3.0, 1.2
LOADED = "import gridbridge.privileged.as_user, gridbridge.privileged.send_arrays"
AT = {"exec_file": "run", "slots": 1, "nodes": 1, "environment": "", "walltime_s": 60}


def rows(tasks: int) -> list[Row]:
    """Measure both campaigns, and print the figures."""
    with TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp may be memory
        few, many = (_Site(Path(folder, str(count)), count) for count in (FEW, tasks))
        few_read_s, few_sent_s = few.took_s()
        read_s, sent_s = many.took_s()
    call_s = _started_s() + few_read_s + few_sent_s
    return [
        Row(what=f"the file of {tasks} tasks read and checked", measured=read_s, unit="s CPU",
            limit=MOST_CALLS * call_s, baseline=call_s, needs_whole=True),
        Row(what="  an array more, then", measured=1000 * sent_s, unit="ms CPU",
            limit=MOST_TIMES * 1000 * few_sent_s, baseline=1000 * few_sent_s,
            needs_whole=True),
    ]  # fmt: skip


class _Site:
    """A campaign of which all arrays but the last were sent."""

    def __init__(self, folder: Path, tasks: int) -> None:
        folder.mkdir()
        self._folder = folder
        arrays = range(max(LAST, tasks // SIZE))
        self._sent, self._new = arrays[:-LAST], arrays[-LAST:]
        header = {"name": "n", "clusters": {"beta": AT}, UNIQUE: "1"}
        lines = (json.dumps(header), *(f"case-{n:07} --seed {n:07}" for n in range(tasks)))
        (folder / "c.1").write_text("".join(f"{line}\n" for line in lines))
        self._tasks = [_tasks(number, tasks) for number in arrays]

    def took_s(self) -> tuple[float, float]:
        """Return the CPU seconds for reading and checking the file, and for each further array."""
        runs = [self._call(f"{self._folder}/ledger.{run}") for run in range(RUNS)]
        return min(read_s for read_s, _ in runs), min(sent_s for _, sent_s in runs)

    def _call(self, folder: str) -> tuple[float, float]:
        with RootLedgerOfSubmittedTasks(1, folder) as ledger:
            ledger.record_or_verify_campaign_file(os.getuid(), "")
        noted = (f"array {one + 1} beta {self._tasks[one]}\njob {one + 1} 7\n" for one in self._sent)
        Path(folder, "c.1").write_text("".join(noted))
        with RootLedgerOfSubmittedTasks(1, folder) as ledger:
            read_s = _cpu_s(lambda: self._read(ledger))
            content = self._read(ledger)
            ledger.arrays_with_same_tasks(0, self._tasks[0])
            sent_s = _cpu_s(lambda: [self._send(ledger, content, at) for at in range(LAST)])
        return read_s, sent_s / LAST

    def _read(self, ledger: RootLedgerOfSubmittedTasks) -> VerifiedCampaignTasks:
        brought = RootVerifiedCampaignFiles(1, str(self._folder))
        brought.record_file_in_ledger(ledger)
        order = SimpleNamespace(
            arrays=tuple(CampaignArrayId("alpha", 1, one + 1) for one in self._new),
            tasks=tuple(self._tasks[one] for one in self._new),
            cluster="beta",
            campaign=1,
            file="c.1",
            section={},
            is_of_copies=False,
            is_ordinary=False,
            group=(1, 0, 0),
            checkpoint_s=0,
        )
        return VerifiedCampaignTasks(cast("AsUserArrayArguments", order), brought, ledger)

    def _send(self, ledger: RootLedgerOfSubmittedTasks, content: VerifiedCampaignTasks, place: int) -> None:
        number = self._new[place]
        ledger.arrays_with_same_tasks(number + 1, self._tasks[number])
        ledger.record_array(number + 1, "beta", self._tasks[number])
        content.array_job_spec(CampaignArrayId("alpha", 1, number + 1), content.script_tasks_of_array(place), "alice")
        ledger.record_job_id_of_array(number + 1, "7")


def _tasks(number: int, tasks: int) -> str:
    size = min(SIZE, tasks // LAST)
    return f"{number * size}-{number * size + size - 1}:1"


def _started_s() -> float:
    """Return the CPU seconds for starting the program that root runs."""
    return min(_started_once_s() for _ in range(RUNS))


def _started_once_s() -> float:
    child = subprocess.Popen([sys.executable, "-I", "-c", LOADED])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert not child.returncode
    return used.ru_utime + used.ru_stime


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
