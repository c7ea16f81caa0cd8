"""python3 -m ...tools.datasets.owned VERB DATASET [STORAGE ...]: acts as a dataset's owner.

gridbridge-as-user runs it in a process of the owner's. It answers in one line of JSON. Exit status:
0 done, 1 not done, which the answer tells, 2 an error in a line.
"""

import json
import os
import sys
from collections.abc import Callable

from gridbridge.errors import GridbridgeError, plain_words
from gridbridge.model.places import CONFIG
from gridbridge.program import users_configuration
from gridbridge.rebalance.replicas import delegation_requests, owner_wiring
from gridbridge.rebalance.replicas.delegated_datasets import DelegatedDatasets
from gridbridge.rebalance.replicas.owner_replicas import DatasetOutcome
from gridbridge.rebalance.store.dataset_records import encode

DONE, NOT_DONE, WRONG = 0, 1, 2
VERBS: dict[
    str, tuple[int, int, Callable[..., DatasetOutcome]]
] = {  # how many words follow the name
    "verify": (0, 0, DelegatedDatasets.verify),
    "copy": (1, 2, DelegatedDatasets.copy),
    "drop": (1, 1, DelegatedDatasets.drop_spare),
}


def main() -> int:
    """Do what the arguments say."""
    verb, *words = sys.argv[1:]
    try:
        policy, _ = users_configuration.load(CONFIG)
        served = owner_wiring.served(policy)
        if verb == "look":
            print(json.dumps([_looked(served, name) for name in words]))  # noqa: T201
            return DONE
        least, most, act = VERBS[verb]
        name, *arguments = words
        if not least <= len(arguments) <= most:
            raise GridbridgeError(f"{verb}: {len(arguments)} areas")
        outcome = act(served, name, *arguments)
    except (GridbridgeError, OSError) as error:
        print(" ".join(plain_words(error).split()), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps(outcome_row(outcome)))  # noqa: T201
    return DONE if outcome.is_done else NOT_DONE


def outcome_row(outcome: DatasetOutcome) -> dict[str, object]:
    """Return an outcome as the service reads it."""
    return {
        "dataset": encode(outcome.dataset),
        "refused": {refusal.what: refusal.reason for refusal in outcome.refused},
        "done": outcome.is_done,
    }


def _looked(served: DelegatedDatasets, name: str) -> dict[str, object]:
    """Tell of one dataset; a wrong record hides no other.

    Of one that is gone the service is let nothing any more, but of one that can't be seen, as in a
    home that is away, all stays as it is.
    """
    try:
        if served.is_gone(name):
            delegation_requests.take_back(name)
            return {"name": name, "gone": True}
        dataset, is_busy = served.seen(name)
    except (GridbridgeError, OSError) as error:
        return {"name": name, "fault": plain_words(error)}
    return {"name": name, "dataset": encode(dataset), "busy": is_busy}


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
