"""gridbridge-as-user carry-inputs FILE CLUSTER ARRAY TASKS: carries input files of tasks, as the campaign's owner.

The owner's process reads the owner's own campaign file and input files, and copies them with the owner's ssh key.
Exit status 75: another such process of the owner runs.
"""

import os
import pwd
import sys
from typing import NoReturn

from gridbridge.errors import ParseError
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal

LONG_S = 86400.0  # time limit of a call; the next call continues
PROGRAM = ("-I", "-m", "gridbridge.rebalance.replicas.task_input_carrier")


def run_owner_input_carrier(arguments: list[str]) -> NoReturn:
    """Check the arguments and the campaign file's owner, then run the owner's program."""
    order = AsUserArrayArguments(arguments)
    try:
        parse_attempt_ranges("".join(order.tasks))
        uid = os.lstat(f"{CAMPAIGNS}/{order.file}").st_uid
    except (ParseError, ValueError, OSError) as error:
        raise AsUserRequestRefusal(f"{order.file}: {error}") from error
    as_user_refusals_and_user_switch.require_ordinary_account(order.config, order.file, uid)
    as_user_refusals_and_user_switch.require_existing_account(uid)
    as_user_refusals_and_user_switch.continue_in_time_limited_child(LONG_S)
    person = as_user_refusals_and_user_switch.switch_to_user(uid)
    environment = as_user_refusals_and_user_switch.environment_of_person(person, pwd.getpwnam(person).pw_dir)
    argv = (sys.executable, *PROGRAM, str(order.campaign), order.cluster, *order.tasks)
    os.execve(sys.executable, argv, environment)  # noqa: S606 - all words were checked
