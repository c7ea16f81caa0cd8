"""gridbridge-as-user carry-..., drop-..., bring-outputs, read-...: tasks' files, as their owner.

The owner's process reads the owner's own campaign file, and copies input files to a cluster, outputs from the cluster
or checkpoints between clusters with the owner's ssh key, or removes copies that no task needs. Exit status 75: another
process carries files of this campaign.
"""

import os
from typing import NoReturn

from gridbridge.errors import ParseError
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_array_arguments import is_short_ascii_number, read_config_or_not_yet_possible
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.as_user_replica_verbs import LONG_S, become_owner_program

OF_TASKS, OF_CAMPAIGN = "c.CAMPAIGN CLUSTER TASKS", "c.CAMPAIGN CLUSTER"
USAGE = {
    "carry-inputs": f"{OF_TASKS} [AT_CLUSTER]",
    "drop-inputs": OF_CAMPAIGN,
    "carry-checkpoints": f"{OF_TASKS} SOURCE",
    "drop-checkpoints": OF_TASKS,
    "bring-outputs": OF_TASKS,
    "read-jobs": OF_TASKS,
    "read-records": OF_TASKS,
}
MODULES = {
    "bring-outputs": "gridbridge.campaigns.cli.task_output_carrier",
    "carry-checkpoints": "gridbridge.campaigns.cli.checkpoint_copier_and_remover",
    "drop-checkpoints": "gridbridge.campaigns.cli.checkpoint_copier_and_remover",
    "read-jobs": "gridbridge.campaigns.cli.task_record_reader",
    "read-records": "gridbridge.campaigns.cli.task_record_reader",
}
KINDS = {"read-jobs": ("jobs",)}
INPUTS = "gridbridge.rebalance.replicas.task_input_carrier"


def run_owner_file_carrier(arguments: list[str]) -> NoReturn:
    """Check the arguments and the campaign file's owner, then run the owner's program."""
    verb, file, cluster, *tasks = [*arguments, "", ""][: max(3, len(arguments))]
    campaign = file.removeprefix("c.")
    most = len(USAGE[verb].split())
    is_complete = most - USAGE[verb].count("[") <= len(arguments) - 1 <= most
    if not is_complete or campaign == file or not is_short_ascii_number(campaign):
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user {verb} {USAGE[verb]}")
    config = read_config_or_not_yet_possible()
    sources = [tasks.pop()] if verb == "carry-checkpoints" else []
    for name in (cluster, *sources):
        if name not in config.get("cluster", {}):
            raise AsUserRequestRefusal(f"{CONFIG}: no [cluster.{name}]; expected the section of the files' cluster")
    try:
        list(map(parse_attempt_ranges, tasks))
        uid = os.lstat(f"{CAMPAIGNS}/{file}").st_uid
    except (ParseError, ValueError, OSError) as error:
        raise AsUserRequestRefusal(f"{file}: {error}") from error
    as_user_refusals_and_user_switch.require_ordinary_account(config, file, uid)
    as_user_refusals_and_user_switch.require_existing_account(uid)
    as_user_refusals_and_user_switch.continue_in_time_limited_child(LONG_S)
    person = as_user_refusals_and_user_switch.switch_to_user(uid)
    words = campaign, cluster, *tasks, *sources, *KINDS.get(verb, ())
    become_owner_program(person, ("-I", "-m", MODULES.get(verb, INPUTS)), words)
