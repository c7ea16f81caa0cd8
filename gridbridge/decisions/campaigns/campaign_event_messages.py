"""Sentences that describe events of campaigns to users."""

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject
from gridbridge.model.fixed_paths import LEDGER
from gridbridge.model.status_report import number_with_noun

EVENT_SENTENCES = {
    CampaignEventCode.GET_JOBS: "{cluster} does not tell how it is{why}",
    CampaignEventCode.DROPPED: (
        "gridbridge.toml has no [cluster.{cluster}] any more, so nobody knows what became of tasks"
        " there: put it back, or as root write them off by gridevents -e {number} -r"
    ),
    CampaignEventCode.SUBMIT_JOB: "{cluster} takes nothing of it now{why}",
    CampaignEventCode.OWNER_UNKNOWN: (
        "nobody here knows its owner's account, so nothing of it is submitted or deleted at"
        " {cluster}; what runs goes on{why}"
    ),
    CampaignEventCode.NO_LEDGER: (
        "root can't read {ledger}, or it lacks arrays at {cluster}: nothing of it is submitted or"
        " deleted there; bring that file back{why}"
    ),
    CampaignEventCode.NO_FILE: (
        "root can't read its file now, so nothing of it is submitted at {cluster}; what runs goes on{why}"
    ),
    CampaignEventCode.RUNNER_SUBMIT_ERROR: "{cluster} refuses its arrays{why}",
    CampaignEventCode.SETUP_ERROR: (
        "{cluster} can not start its tasks (is exec_directory there, with room, and yours?), or its"
        " prologue failed there"
    ),
    CampaignEventCode.BLACKLIST: "its last {those} at {cluster} failed {alone}{host}",
    CampaignEventCode.SINK: "its {tasks} successes at {cluster} are much too short to be true",
    CampaignEventCode.NO_CLUSTER: (
        "tasks of it wait that may go nowhere: each of its clusters is closed to it, drained or too"
        " small for a task, or they overran their walltime there"
    ),
    CampaignEventCode.FILE_REFUSED: "nothing more of it is submitted{why}",
    CampaignEventCode.RESTORED: "the state file was an older one{why}{then}",
    CampaignEventCode.DISPUTED: (
        "the records of {those} at {cluster} tell several ends, and none is believed:"
        " gridevents -e {number} -r runs {them} again"
    ),
    CampaignEventCode.EXIT_ERROR: "{those} failed at {cluster}{status}",
    CampaignEventCode.WALLTIME: "{those} ran longer than the walltime at {cluster}",
    CampaignEventCode.FRAG: "{those} {were} deleted at {cluster}",
    CampaignEventCode.SITE_FAULT: "{those} {were} lost{hosts} at {cluster}{why}",
    CampaignEventCode.PREEMPTED: "{those} lost their places too often, at last at {cluster}",
    CampaignEventCode.NOT_STARTED: "{those} could not be started anywhere, at last at {cluster}",
    CampaignEventCode.EPILOG_EXIT_ERROR: "its epilogue failed at {cluster}{status}{why}",
    CampaignEventCode.RESUBMIT: "{those} asked too often to run again, at last at {cluster}",
}


RESTORED_FOLLOW_UPS = {  # effects of a restored older state file, by campaign state
    CampaignState.PAUSED: "; it is paused: griddel -r {campaign} lets it go on if you wish",
    CampaignState.IN_TREATMENT: "; it goes on with what root's ledger knows",
    CampaignState.TERMINATED: "; it has ended, and nothing is to be done",
    CampaignState.CANCELLED: "; it has ended, and nothing more of it is sent",
}


RESTORED_AGAIN = "; gridevents -c {campaign} -r takes over what became of them"


def describe_campaign_event(event: CampaignEvent, state: CampaignState | None = None) -> str:
    """Describe an event and its effect in the campaign's present state."""
    status = "" if event.exit_status is None else f" with exit status {event.exit_status}"
    if event.code is CampaignEventCode.DROPPED and event.until:
        return f"the tasks at {event.cluster} count as lost: root has written them off"
    is_one = event.tasks == 1
    return EVENT_SENTENCES[event.code].format(
        number=event.number or "ID",
        cluster=event.cluster,
        tasks=event.tasks,
        those=number_with_noun(event.tasks, "task"),
        were="was" if is_one else "were",
        them="it" if is_one else "them",
        alone="by itself" if is_one else "by themselves",
        status=status,
        host=f", all of them on {event.host}" if event.host else "",
        hosts="" if event.why else " with their hosts",
        why=f": {event.why}" if event.why else "",
        ledger=f"{LEDGER}/c.{event.campaign}",
        then=_restored_follow_up(event, state),
    )


def _restored_follow_up(event: CampaignEvent, state: CampaignState | None) -> str:
    """Describe the effect of a restored older state file on the campaign."""
    words = RESTORED_AGAIN if event.why else RESTORED_FOLLOW_UPS.get(state, "") if state else ""
    return words.format(campaign=event.campaign)


def format_campaign_event_for_log(event: CampaignEvent, state: CampaignState | None = None) -> str:
    """Format an event for the log, with its campaign."""
    owner = "" if event.kind is CampaignEventSubject.CLUSTER else f"campaign {event.campaign}: "
    over = ", which is over" if event.closed_at else ""
    return f"{owner}{describe_campaign_event(event, state)}{over}"
