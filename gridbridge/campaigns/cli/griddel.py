"""griddel: cancels, pauses and resumes campaigns."""

import click

from gridbridge.campaigns.cli import REFUSED, UNREACHABLE, command_relay_and_runner_wait
from gridbridge.campaigns.cli.gridstat import parse_campaign_dot_task
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, VERBOSE, VERSION
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.fixed_paths import FixedPaths

SAID = {
    CampaignOwnerRequestVerb.CANCEL: "cancelled",
    CampaignOwnerRequestVerb.PAUSE: "paused",
    CampaignOwnerRequestVerb.RESUME: "resumed",
    CampaignOwnerRequestVerb.PURGE: "purged",
    CampaignOwnerRequestVerb.CANCEL_TASK: "cancelled",
    CampaignOwnerRequestVerb.ABANDON: "abandoned",
}

NOT_DONE = {
    CampaignOwnerRequestReply.UNKNOWN: "no campaign has this id",
    CampaignOwnerRequestReply.NOT_THEIRS: "owned by another user",
    CampaignOwnerRequestReply.NOT_ROOTS: "only root may abandon a campaign",
    CampaignOwnerRequestReply.NOT_CANCELLED: "the campaign is not cancelled; cancel the campaign first",
    CampaignOwnerRequestReply.NOT_PAUSED: "the campaign is not paused",
    CampaignOwnerRequestReply.PAUSED: "the campaign is paused",
    CampaignOwnerRequestReply.TERMINATED: "the campaign has ended",
    CampaignOwnerRequestReply.CANCELLED: "the campaign is cancelled",
    CampaignOwnerRequestReply.NEEDED: "a campaign that has not ended waits for this campaign",
    CampaignOwnerRequestReply.COPIES_LEFT: "the campaign's input copies are being removed; purge the campaign later",
    CampaignOwnerRequestReply.NOT_ENDED: "the campaign has not ended; cancel the campaign, and wait for its end",
    CampaignOwnerRequestReply.NO_TASK: "the campaign has no such task",
    CampaignOwnerRequestReply.TASK_ENDED: "the task has ended",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("numbers", metavar="ID...", nargs=-1)
@click.option(
    *("-c", "--campaign_ids", "--campaign-ids", "listed"), metavar="ID,ID", help="Campaigns, separated by commas."
)
@click.option("-p", "--pause", "is_pause", is_flag=True, help="Send no more tasks until griddel -r.")
@click.option("-r", "--resume", "is_resume", is_flag=True, help="Resume paused campaigns.")
@click.option("--purge", "is_purge", is_flag=True, help="Remove all records of ended campaigns.")
@click.option(
    "--abandon", "is_abandon", is_flag=True, help="As root: end cancelled campaigns whose tasks nobody can delete."
)
@click.option("-j", "--job", metavar="JOB", help="Cancel the task with this CIGRI_JOB_ID, such as 12.7.")
@VERBOSE
@VERSION
@FIXED_PATHS
def griddel(
    paths: FixedPaths,
    numbers: tuple[str, ...],
    listed: str | None,
    is_pause: bool,
    is_resume: bool,
    is_purge: bool,
    is_abandon: bool,
    job: str | None,
) -> int:
    """Cancel campaigns of yours: no more tasks are sent, and waiting and running tasks are deleted.

    --purge removes all records of ended campaigns, and keeps their outputs. Root may cancel, pause, resume and purge
    the campaigns of all users. --abandon is only for root: tasks that a cancelled campaign still has at clusters count
    as ended, and are no longer deleted. The runner's log names the jobs of these tasks (event=abandoned).

    Exit status: 0; 1 a campaign does not exist, is owned by another user, or is in another state, which is reported; 2
    wrong usage; 75 no runner takes requests now, and nothing is changed; 76 the request was handed over, and no answer
    came: look at gridstat before you repeat the command.

    \b
    Example:
      griddel 12
      griddel -p -c 12,13
      griddel -j 12.7
    """
    words = [*numbers, *(listed.split(",") if listed else [])]
    verbs = {
        CampaignOwnerRequestVerb.PAUSE: is_pause,
        CampaignOwnerRequestVerb.RESUME: is_resume,
        CampaignOwnerRequestVerb.PURGE: is_purge,
        CampaignOwnerRequestVerb.ABANDON: is_abandon,
        CampaignOwnerRequestVerb.CANCEL_TASK: job is not None,
    }
    chosen = [verb for verb, is_chosen in verbs.items() if is_chosen] or [CampaignOwnerRequestVerb.CANCEL]
    if len(chosen) > 1 or (job is not None and words):
        raise click.UsageError("several of -p, -r, --purge, --abandon and -j JOB; expected one of these")
    verb, task = chosen[0], 0
    if job is not None:
        campaign, task = parse_campaign_dot_task(job)
    campaigns = _parse_campaign_ids(words) if job is None else (campaign,)
    return command_relay_and_runner_wait.send_request_and_report_answer(
        "griddel", lambda: _request_change_of_campaigns(verb, campaigns, task, job, paths)
    )


def _request_change_of_campaigns(
    verb: CampaignOwnerRequestVerb, campaigns: tuple[int, ...], task: int, job: str | None, paths: FixedPaths
) -> int:
    answers = campaign_client.ask_runner_to_act_on_campaigns(verb, campaigns, paths, task)
    for number, reply in answers.items():
        if reply is CampaignOwnerRequestReply.DONE:
            subject = f"Campaign {number}" if job is None else f"Task {number}.{task}"
            output_and_errors.print_line(f"{subject} {SAID[verb]}")
        else:
            output_and_errors.print_error(f"griddel: campaign {number}: {NOT_DONE[reply]}")
    return 0 if {*answers.values()} <= {CampaignOwnerRequestReply.DONE} else REFUSED


def _parse_campaign_ids(words: list[str]) -> tuple[int, ...]:
    if tasks := [word for word in words if _is_task_id(word)]:
        raise click.UsageError(f"{tasks[0]} is a task; expected griddel -j {tasks[0]}")
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise click.UsageError("no campaign id; expected ids that gridstat shows, such as griddel 12 13")
    return tuple(dict.fromkeys(map(campaign_client.parse_campaign_number, words)))


def _is_task_id(word: str) -> bool:
    try:
        campaign_client.parse_cigri_job_id(word)
    except ValueError:
        return False
    return True


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(griddel, "griddel", UNREACHABLE, changes=lambda _: True)
