"""Runs the site's programs for campaigns: stress scripts, load commands, mail program, notification command."""

import logging
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import CommandFailed
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection, NotificationsSection
from gridbridge.model.campaigns.notification_subscriptions import CampaignNotification, NotificationChannel
from gridbridge.model.fixed_paths import WISH
from gridbridge.shell.program_runs import run_program

TIMEOUT_S = 10.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

_log = logging.getLogger(__name__)


def run_cluster_stress_scripts(clusters: Mapping[str, ClusterCampaignsSection]) -> dict[str, float]:
    """Run the clusters' stress scripts in parallel; return the printed numbers, inf for a failed script."""
    scripts = {name: section.stress_script for name, section in clusters.items() if section.stress_script}
    numbers, failures = _run_programs_for_numbers(scripts)
    for cluster, why in failures.items():
        _log.warning("event=no_stress cluster=%s script=%s why=%r", cluster, scripts[cluster], why)
    return numbers | dict.fromkeys(failures, math.inf)


def run_load_commands(commands: Mapping[str, str]) -> dict[str, float]:
    """Run the load commands of storage areas in parallel; return the printed loads of successful commands."""
    numbers, failures = _run_programs_for_numbers(commands)
    for storage in (storage for storage, load in numbers.items() if not 0 <= load < math.inf):
        failures[storage] = f"the program printed {numbers[storage]:g}, no load"
    for storage, why in failures.items():
        _log.warning("event=no_load storage=%s program=%s why=%r", storage, commands[storage], why)
    return {storage: load for storage, load in numbers.items() if storage not in failures}


def _run_programs_for_numbers(programs: Mapping[str, str]) -> tuple[dict[str, float], dict[str, str]]:
    """Run a program for each name, with the name as argument; return numbers and reasons of failures by name."""
    with ThreadPoolExecutor(max_workers=max(1, len(programs))) as threads:
        results = dict(zip(programs, threads.map(_run_program_for_number, programs.values(), programs), strict=True))
    numbers = {name: result for name, result in results.items() if isinstance(result, float)}
    return numbers, {name: result for name, result in results.items() if isinstance(result, str)}


def _run_program_for_number(program: str, name: str) -> float | str:
    try:
        result = run_program((program, name), ENVIRONMENT, TIMEOUT_S).require_success()
    except CommandFailed as error:
        return str(error)
    with suppress(ValueError):
        number = float(result.stdout)
        if not math.isnan(number):
            return number
    failure = CommandFailed(result.argv, result.status, result.stdout, result.stderr)
    return f"the script printed no number: {failure.program_and_failure}"


LONGEST_S = privileged_helper_calls.PATIENCE_S + 5.0  # longer than any notification program may run
MOST_BYTES = 1 << 16  # at most this many bytes of a program's output are read
NO_ANSWER = "\n-- \ngridnotify -l lists your subscriptions, and gridnotify -u ends a subscription.\n"


def deliver_notification(message: CampaignNotification, policy: NotificationsSection) -> None:
    """Deliver a notification by mail, command or program; raise CommandFailed or OSError."""
    subscription = message.subscription
    if subscription.way is NotificationChannel.PROGRAM:
        words = ("notify-owner", f"{WISH}{subscription.token}", *message.words)
        privileged_helper_calls.run_gridbridge_as_user(*words).require_success()
        return
    if subscription.way is NotificationChannel.MAIL:
        # -i: a line that is only a dot does not end the mail
        argv: tuple[str, ...] = (policy.mail, "-i", subscription.identity)
        text = notification_email(message)
    else:
        argv = (policy.command, subscription.identity)
        text = "".join(f"{line}\n" for line in (message.subject, *message.lines)).encode()
    environment = {**ENVIRONMENT, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    run_program(argv, environment, 30.0, text, MOST_BYTES).require_success()


def notification_email(message: CampaignNotification) -> bytes:
    """Return a notification as an e-mail; the name of a campaign cannot add a header."""
    email = EmailMessage()
    email["To"] = message.subscription.identity
    email["Subject"] = message.subject
    email["Date"] = formatdate(localtime=True)
    email["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents out-of-office replies
    email.set_content("".join(f"{line}\n" for line in message.lines) + NO_ANSWER)
    return email.as_bytes()
