"""Cost of recording an array of 10,000 tasks in root's ledger, for the last and the first arrays.

However many were sent before, an array costs what its own tasks cost.
"""

import statistics
import time
from tempfile import TemporaryDirectory

from bench.brief import sized
from bench.rows import Row
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks

AN_ARRAY = sized(10_000, 1_000)  # tasks
SOME = 10  # arrays, of which the median counts
MOST_TIMES = 3.0  # of the first ones


def rows(tasks: int) -> list[Row]:
    """Measure the recording, in CPU seconds."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        took_ms = [_noted_ms(f"{folder}/ledger", first) for first in range(0, tasks, AN_ARRAY)]
    first_ms, last_ms = (statistics.median(some) for some in (took_ms[:SOME], took_ms[-SOME:]))
    limit = MOST_TIMES * first_ms
    what = f"the last of {tasks} noted"
    return [Row(what=what, measured=last_ms, unit="ms", limit=limit, baseline=first_ms, needs_whole=True)]


def _noted_ms(folder: str, first: int) -> float:
    began = time.process_time()
    with RootLedgerOfSubmittedTasks(1, folder) as ledger:
        ledger.record_or_verify_campaign_file(1000, "digest")
        ledger.record_array(first // AN_ARRAY + 1, "beta", f"{first}-{first + AN_ARRAY - 1}:1")
    return 1000 * (time.process_time() - began)
