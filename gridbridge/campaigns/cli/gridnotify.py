"""gridnotify: subscribes users to notifications about their campaigns."""

import os

import click

from gridbridge.campaigns.cli import REFUSED, UNREACHABLE, command_relay_and_runner_wait
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, VERSION
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.notification_subscriptions import NotificationChannel, NotificationSeverity
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.published_status_and_reports import replace_control_characters

NOT_DONE = {
    CampaignOwnerRequestReply.UNKNOWN: "no such subscription; gridnotify -l lists yours",
    CampaignOwnerRequestReply.NO_WAY: "the site does not offer this channel: see [notifications] of gridbridge.toml",
    CampaignOwnerRequestReply.TOO_MANY: "you have 20 subscriptions, the largest allowed number",
    CampaignOwnerRequestReply.WRONG: "the service refuses this subscription",
}
TYPED = {NotificationChannel.MAIL: "-m", NotificationChannel.JABBER: "-j", NotificationChannel.PROGRAM: "-p"}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-l", "--list", "is_list", is_flag=True, help="List your subscriptions.")
@click.option("-m", "--mail", "address", metavar="ADDRESS", help="Get notifications by mail.")
@click.option("-j", "--jabber", "name", metavar="IDENTITY", help="Get notifications by the site's command.")
@click.option("-p", "--program", "path", metavar="PROGRAM", help="Get notifications by your own program.")
@click.option("-u", "--unsubscribe", "is_end", is_flag=True, help="End the subscription.")
@click.option("-s", "--severity", metavar="low|medium|high", help="Least severity of notifications.")
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Print what was done.")
@click.option("--json", "is_json", is_flag=True, help="With -l: print JSON.")
@VERSION
@FIXED_PATHS
def gridnotify(
    paths: FixedPaths,
    is_list: bool,
    address: str | None,
    name: str | None,
    path: str | None,
    is_end: bool,
    severity: str | None,
    is_verbose: bool,
    is_json: bool,
) -> int:
    """Get notifications about the ends of your campaigns, and about their failures.

    All events of a minute are one message. A program of yours runs as you on the transfer host, without arguments and
    for at most 30 s; each line of its standard input is CAMPAIGN CODE CLUSTER TASKS. Root gets notifications about
    clusters. Exit status: 0; 1 the subscription does not exist, or the site does not offer the channel; 2 wrong usage;
    75 no runner takes requests now, and nothing is changed; 76 the request was handed over, and no answer came.

    \b
    Example:
      gridnotify -m alice@example.org -s high
      gridnotify -p /home/alice/bin/told -s low
      gridnotify -l
      gridnotify -u -m alice@example.org
    """
    identities = zip(TYPED, (address, name, path), strict=True)
    chosen = [(way, text) for way, text in identities if text is not None]
    if len(chosen) + is_list != 1:
        raise click.UsageError("give one of -m ADDRESS, -j IDENTITY, -p PROGRAM and -l")
    return command_relay_and_runner_wait.send_request_and_report_answer(
        "gridnotify",
        lambda: (
            _print_own_subscriptions(is_json, paths)
            if is_list
            else _subscribe_or_unsubscribe_caller(*chosen[0], severity, is_end, is_verbose, paths)
        ),
    )


def _print_own_subscriptions(is_json: bool, paths: FixedPaths) -> int:
    subscriptions = campaign_client.own_notify_subscriptions(paths)
    if is_json:
        output_and_errors.print_json(subscriptions)
        return 0
    if not subscriptions:
        output_and_errors.print_error("gridnotify: you have no subscriptions; use gridnotify -m ADDRESS -s high")
    else:
        output_and_errors.print_line("You have the following notification subscriptions:")
    for subscription in subscriptions:
        identity = replace_control_characters(subscription["identity"])
        output_and_errors.print_line(f" - {subscription['way']} on {identity} with severity {subscription['severity']}")
    return 0


def _subscribe_or_unsubscribe_caller(
    way: NotificationChannel, identity: str, severity: str | None, is_end: bool, is_verbose: bool, paths: FixedPaths
) -> int:
    try:
        campaign_client.require_valid_notify_address(way, identity)
    except ParseError as error:
        raise click.UsageError(f"{TYPED[way]} {error}") from error
    if (severity or not is_end) and severity not in [level.value for level in NotificationSeverity]:
        wrong = f"-s {severity}: not a severity; " if severity is not None else ""
        raise click.UsageError(f"{wrong}give -s low, medium or high, the lowest severity that notifies you")
    verb = CampaignOwnerRequestVerb.UNSUBSCRIBE if is_end else CampaignOwnerRequestVerb.SUBSCRIBE
    answer = campaign_client.change_own_subscription(
        verb, way, identity, NotificationSeverity(severity or NotificationSeverity.LOW), paths
    )
    if answer is not CampaignOwnerRequestReply.DONE:
        output_and_errors.print_error(f"gridnotify: {NOT_DONE[answer]}")
        return REFUSED
    if way is NotificationChannel.PROGRAM and not is_end and not os.access(identity, os.X_OK):
        problem = "you can't execute this program here; expected an executable program on the transfer host"
        output_and_errors.print_error(f"gridnotify: {identity}: {problem}")
    if is_verbose:
        output_and_errors.print_line(f"{'Unsubscribed' if is_end else 'Subscribed'}: {way} on {identity}")
    return 0


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(
        gridnotify, "gridnotify", UNREACHABLE, changes=lambda options: not options["is_list"]
    )
