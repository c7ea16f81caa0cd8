"""Reads which checkpoints tasks have left at a cluster, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.campaigns.cli.task_checkpoint_reader CAMPAIGN CLUSTER TASKS. The program prints a line of
JSON: for each attempt with checkpoints the task, the attempt, the number of checkpoints, how many of them were timed,
and their seconds together. Exit status: 0 done; 2 error, on standard error.
"""

import json
import sys
from dataclasses import replace

from gridbridge.campaigns.cli.task_output_reading_and_fetching import (
    own_campaign_output_folders,
    read_output_tails_by_name,
)
from gridbridge.errors import GridbridgeError, StateError, error_on_one_line
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import FixedPaths

MOST_BYTES = 4096  # read from the end of each file: a few hundred checkpoints
DONE, WRONG = 0, 2


def run_task_checkpoint_reader(paths: FixedPaths | None = None) -> int:
    """Print the checkpoints of the attempts in the command line; return the exit status."""
    campaign, cluster, tasks = int(sys.argv[1]), *sys.argv[2:]
    try:
        source = own_campaign_output_folders(campaign, paths or FixedPaths(), ()).get(cluster)
        if source is None:
            raise StateError(f"{cluster}: not configured any more")
        # begin above the campaign's folder, which is missing until the campaign's first task starts
        parent, _, folder = source.folder.rpartition("/")
        attempts = {
            f"{folder}/{task}.{number}.checkpoints": (task, number) for task, number in parse_attempt_ranges(tasks)
        }
        texts = read_output_tails_by_name(replace(source, folder=parent or "/"), tuple(attempts), MOST_BYTES)
        rows = [(*attempts[name], *_count_checkpoints(text)) for name, text in texts.items()]
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps({"checkpoints": rows}))  # noqa: T201
    return DONE


def _count_checkpoints(text: str) -> tuple[int, int, float]:
    """Return the numbers of checkpoints and of timed checkpoints, and the seconds of the timed, from their file."""
    lines = text.split()[1 if len(text) >= MOST_BYTES else 0 :]  # the first line may be cut off
    timed = [int(line) for line in lines if line.isascii() and line.isdigit() and len(line) < 10]
    return len(lines), len(timed), sum(timed) / 100


if __name__ == "__main__":
    sys.exit(run_task_checkpoint_reader())
