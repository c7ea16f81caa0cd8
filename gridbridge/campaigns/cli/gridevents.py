"""gridevents: shows failures of campaigns and clusters as events, and closes events."""

from collections.abc import Mapping

import click

from gridbridge.campaigns.cli import REFUSED, UNREACHABLE, command_relay_and_runner_wait
from gridbridge.campaigns.cli.campaign_table import MOMENT
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, FOLDER, VERBOSE, VERSION
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    BLACKLISTING_EVENTS,
    SELF_HEALING_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
)
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.state.published_json import to_json_types

NOT_DONE = {
    CampaignOwnerRequestReply.UNKNOWN: "no event has this id",
    CampaignOwnerRequestReply.NOT_THEIRS: "owned by another user",
    CampaignOwnerRequestReply.CLOSED: "the event is closed",
    CampaignOwnerRequestReply.CANCELLED: "the event's campaign is cancelled",
    CampaignOwnerRequestReply.NOT_AGAIN: "a black hole's event (SINK) stays open until -f confirms the results",
    CampaignOwnerRequestReply.FILE_REFUSED: "root refused the campaign's file, so its tasks are not retried;"
    " gridsub --retry-failed submits them again",
    CampaignOwnerRequestReply.ONE_TRY: "a test campaign sends one task to each cluster: submit the campaign again",
    CampaignOwnerRequestReply.NOT_TAKEN_UP: ("root did not reopen the campaign; the runner's log says why"),
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("campaign_id", metavar="[ID]", type=int, required=False)
@click.option("-c", "--campaign", metavar="ID", type=int, help="Show events of this campaign; the same as argument ID.")
@click.option("-g", "--global", "is_global", is_flag=True, help="Show events of clusters.")
@click.option("-e", "--event", "number", metavar="ID", type=int, help="Show only this event.")
@click.option("-f", "--fix", "is_fix", is_flag=True, help="Close the events. Fix their causes first.")
@click.option(
    "-r",
    "--resubmit",
    "is_again",
    is_flag=True,
    help="Close the events and run their tasks again. An event SINK stays open.",
)
@click.option("-a", "--all", "is_all", is_flag=True, help="Show closed events too.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@VERBOSE
@FOLDER
@VERSION
@FIXED_PATHS
def gridevents(
    paths: FixedPaths,
    campaign_id: int | None,
    campaign: int | None,
    is_global: bool,
    number: int | None,
    is_fix: bool,
    is_again: bool,
    is_all: bool,
    is_json: bool,
    folder: str,
) -> int:
    """Show failures of campaigns and clusters, or close events, so that clusters get tasks of campaigns again.

    Without arguments gridevents shows the open events of all campaigns and clusters. Everybody sees events; owners
    close the events of their campaigns, and root closes all events. With -e an owner sees the parameters of the first
    task, and the end of the task's standard error if this host has its output. Exit status: 0; 1 the campaign or event
    does not exist, or an event can't be closed; 2 wrong usage, or the published files can't be read; 75 no runner takes
    requests now, and nothing is changed; 76 the request was handed over, and no answer came: look at the events before
    you repeat the command.

    \b
    Example:
      gridevents
      gridevents 12
      gridevents -c 12 -f -r
    """
    if None not in (campaign, campaign_id) and campaign != campaign_id:
        raise click.UsageError("two campaigns are named; expected -c ID or ID")
    campaign = campaign if campaign is not None else campaign_id
    is_any = campaign is None and number is None and not is_global
    if is_any and (is_fix or is_again):
        raise click.UsageError("no event is named; expected one of -c ID, -e ID and -g")
    campaign_client.require_published_files(folder)
    events = campaign_client.select_published_events(
        campaign_client.published_events(folder), campaign, number, is_global=is_global, is_all=is_all
    )
    if problem := _explain_missing_event(events, campaign, number, folder):
        output_and_errors.print_error(f"gridevents: {problem}")
        return REFUSED
    if (is_fix or is_again) and not events:
        hint = f"; gridsub --retry-failed {campaign} submits the campaign's failed tasks again"
        is_hint = is_again and campaign is not None
        output_and_errors.print_line(f"no event is open; nothing is changed{hint if is_hint else ''}")
        return 0
    if is_fix or is_again:
        verb = CampaignOwnerRequestVerb.RESUBMIT if is_again else CampaignOwnerRequestVerb.FIX
        request_paths = FixedPaths(published=folder, campaigns=paths.campaigns)
        return command_relay_and_runner_wait.send_request_and_report_answer(
            "gridevents", lambda: _request_closing_of_events(events, verb, request_paths)
        )
    states = {shown.number: shown.state for shown in campaign_client.published_campaigns(folder)}
    print_events(events, states, is_json, paths.campaigns, is_one=number is not None)
    return 0


def _explain_missing_event(
    events: tuple[CampaignEvent, ...], campaign: int | None, number: int | None, folder: str
) -> str:
    if number is not None and not events:
        return f"no event {number}"
    numbers = {shown.number for shown in campaign_client.published_campaigns(folder)}
    return "" if campaign is None or campaign in numbers else f"no campaign {campaign}"


def _request_closing_of_events(
    events: tuple[CampaignEvent, ...], verb: CampaignOwnerRequestVerb, paths: FixedPaths
) -> int:
    sent_again = {
        event.number
        for event in events
        if verb is CampaignOwnerRequestVerb.RESUBMIT and _is_event_about_failed_tasks(event)
    }
    campaigns = tuple({event.campaign for event in events})
    answers = campaign_client.ask_runner_to_act_on_campaigns(
        verb, tuple(event.number for event in events), paths, of=campaigns
    )
    for number, reply in answers.items():
        if reply is CampaignOwnerRequestReply.DONE:
            output_and_errors.print_line(f"Event {number} closed")
            if number in sent_again:
                output_and_errors.print_line(f"Event {number}: its tasks are sent again")
        else:
            output_and_errors.print_error(f"gridevents: event {number}: {NOT_DONE[reply]}")
    is_done = {*answers.values()} - {CampaignOwnerRequestReply.NOT_AGAIN} == {CampaignOwnerRequestReply.DONE}
    return 0 if is_done else REFUSED


def _is_event_about_failed_tasks(event: CampaignEvent) -> bool:
    return event.kind is CampaignEventSubject.TASK or event.code in OF_LOST_TASKS


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(
        gridevents, "gridevents", UNREACHABLE, changes=lambda options: options["is_fix"] or options["is_again"]
    )


OF_LOST_TASKS = (CampaignEventCode.DROPPED, CampaignEventCode.DISPUTED)
EVENT_HEAD = ("Event", "S", "Class", "Code", "Campaign", "Cluster", "Since", "What")


def print_events(
    events: tuple[CampaignEvent, ...],
    states: Mapping[int, CampaignState],
    is_json: bool,
    campaigns: str,
    is_one: bool = False,
) -> None:
    """Print a table of events; a single event's first failed task is shown to the campaign's owner."""
    if is_json:
        output_and_errors.print_json(to_json_types(events))
        return
    output_and_errors.print_table(
        EVENT_HEAD, [_event_table_row(event, states) for event in events], numbers=("Event", "Campaign")
    )
    for event in events if is_one else ():
        parameters, words = campaign_client.first_failed_task_details(event, campaigns)
        if parameters:
            output_and_errors.print_line(f"first task {event.campaign}.{event.first_task}: {parameters}")
        for word in words:
            output_and_errors.print_line(f"  {word}")
        if folder := campaign_client.failed_start_directory(event, campaigns):
            output_and_errors.print_line(f"exec_directory at {event.cluster}: {folder}")
        if not event.closed_at and (cure := _describe_event_cure(event)):
            output_and_errors.print_line(cure)


def _describe_event_cure(event: CampaignEvent) -> str:
    if event.kind is CampaignEventSubject.TASK:
        return (
            f"after the cause is fixed: gridevents -c {event.campaign} -r retries the failed"
            f" tasks, gridevents -e {event.number} -f only closes the event"
        )
    if event.code in SELF_HEALING_EVENTS:
        return f"the event closes when the next try succeeds; gridevents -e {event.number} -f tries at once"
    if event.code in BLACKLISTING_EVENTS:
        return f"after the cause is fixed: gridevents -e {event.number} -f opens {event.cluster} to the campaign again"
    return ""


def _event_table_row(event: CampaignEvent, states: Mapping[int, CampaignState]) -> tuple[str, ...]:
    is_tried = event.until and not event.closed_at and event.code not in OF_LOST_TASKS
    again = f"; the next try is at {event.until.astimezone():{MOMENT}}" if event.until and is_tried else ""
    state = "closed" if event.closed_at else "open"
    campaign = str(event.campaign or "-")
    return (
        *(str(event.number), state, event.kind.value, event.code.value, campaign, event.cluster or "-"),
        f"{event.opened_at.astimezone():{MOMENT}}",
        campaign_client.describe_event_to_user(event, states) + again,
    )
