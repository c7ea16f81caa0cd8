"""Acts on a dataset as its owner; the service runs this program through gridbridge-as-user.

Usage: python3 -m gridbridge.rebalance.replicas.dataset_owner_program VERB DATASET [STORAGE ...].
It answers with one line of JSON. Exit status: 0 done; 1 not done, with the reason; 2 error, on standard error.
"""

import json
import os
import sys
from collections.abc import Callable

from gridbridge.errors import GridbridgeError, describe_error, error_on_one_line
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG
from gridbridge.program import configuration_in_force
from gridbridge.rebalance.replicas import delegated_datasets, owner_datasets
from gridbridge.rebalance.replicas.dataset_records_and_originals import encode_dataset_record
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas

DONE, NOT_DONE, WRONG = 0, 1, 2
# for each verb: fewest and most arguments after the dataset, and the method
VERBS: dict[str, tuple[int, int, Callable[..., DatasetAndRefusedAreas]]] = {
    "verify": (0, 0, OwnerDatasets.verify_dataset),
    "copy": (1, 2, OwnerDatasets.copy_replica_into_area),
    "drop": (1, 1, OwnerDatasets.drop_spare_replica),
}


def run_dataset_owner_program() -> int:
    """Carry out the action that the command line names; return the exit status."""
    verb, *words = sys.argv[1:]
    try:
        policy, _ = configuration_in_force.load_config_or_one_in_force(CONFIG)
        served = owner_datasets.open_owner_datasets(policy)
        if verb == "look":
            print(json.dumps([_report_dataset(served, name) for name in words]))  # noqa: T201
            return DONE
        least, most, act = VERBS[verb]
        name, *arguments = words
        if not least <= len(arguments) <= most:
            raise GridbridgeError(f"{verb}: {len(arguments)} storage areas; expected {least} to {most}")
        outcome = act(served, name, *arguments)
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps(dataset_outcome_json(outcome)))  # noqa: T201
    return DONE if outcome.is_done else NOT_DONE


def dataset_outcome_json(outcome: DatasetAndRefusedAreas) -> dict[str, object]:
    return {
        "dataset": encode_dataset_record(outcome.dataset),
        "refused": {refusal.what: refusal.reason for refusal in outcome.refused},
        "done": outcome.is_done,
    }


def _report_dataset(served: OwnerDatasets, name: str, campaigns: str = CAMPAIGNS) -> dict[str, object]:
    """Report a dataset or its fault as JSON; revoke the delegation of a dataset that is certainly gone."""
    try:
        if served.records.is_dataset_gone(name):
            delegated_datasets.try_revoke_dataset_delegation(name, campaigns)
            return {"name": name, "gone": True}
        dataset = encode_dataset_record(served.records.load_dataset(name))
        return {"name": name, "dataset": dataset, "busy": served.records.is_dataset_locked(name)}
    except (GridbridgeError, OSError) as error:
        return {"name": name, "fault": describe_error(error)}


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(run_dataset_owner_program())
