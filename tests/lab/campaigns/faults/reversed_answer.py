"""Reverse the jobs and queues in an answer of qstat -xml or oarstat -J.

The filter runs on the host that answers, under any Python. Each job stays in its queue.
"""

import json
import re
import sys
from collections.abc import Callable

EACH = (r"<job_list.*?</job_list>\s*", r"<Queue-List>.*?</Queue-List>\s*")


def turned(told: str) -> str:
    if told.lstrip().startswith("{"):
        return json.dumps(dict(reversed(json.loads(told).items())))
    for each in EACH:
        told = re.sub(f"(?:{each})+", _back(each), told, flags=re.DOTALL)
    return told


def _back(each: str) -> Callable[[re.Match[str]], str]:
    return lambda some: "".join(reversed(re.findall(each, some[0], re.DOTALL)))


if __name__ == "__main__":
    sys.stdout.write(turned(sys.stdin.read()))
