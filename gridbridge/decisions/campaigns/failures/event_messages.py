"""Events in words, made from their numbers for people."""

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode, EventKind
from gridbridge.model.places import LEDGER
from gridbridge.model.status_report import count

WORDS = {
    EventCode.GET_JOBS: "{cluster} does not tell how it is{why}",
    EventCode.DROPPED: (
        "gridbridge.toml has no [cluster.{cluster}] any more, so nobody knows what became of tasks"
        " there: put it back, or as root write them off by gridevents -e {number} -r"
    ),
    EventCode.SUBMIT_JOB: "{cluster} takes nothing of it now{why}",
    EventCode.OWNER_UNKNOWN: (
        "nobody here knows its owner's account, so nothing of it is submitted or deleted at"
        " {cluster}; what runs goes on{why}"
    ),
    EventCode.NO_LEDGER: (
        "root can't read {ledger}, or it lacks arrays at {cluster}: nothing of it is submitted or"
        " deleted there; bring that file back{why}"
    ),
    EventCode.NO_FILE: (
        "root can't read its file now, so nothing of it is submitted at {cluster}; what runs goes"
        " on{why}"
    ),
    EventCode.RUNNER_SUBMIT_ERROR: "{cluster} refuses its arrays{why}",
    EventCode.SETUP_ERROR: (
        "{cluster} can not start its tasks (is exec_directory there, with room, and yours?), or its"
        " prologue failed there"
    ),
    EventCode.BLACKLIST: "its last {those} at {cluster} failed {alone}{host}",
    EventCode.SINK: "its {tasks} successes at {cluster} are much too short to be true",
    EventCode.NO_CLUSTER: (
        "tasks of it wait that may go nowhere: each of its clusters is closed to it, drained or too"
        " small for a task, or they overran their walltime there"
    ),
    EventCode.FILE_REFUSED: "nothing more of it is submitted{why}",
    EventCode.RESTORED: "the state file was an older one{why}{then}",
    EventCode.DISPUTED: (
        "the records of {those} at {cluster} tell several ends, and none is believed:"
        " gridevents -e {number} -r runs {them} again"
    ),
    EventCode.EXIT_ERROR: "{those} failed at {cluster}{status}",
    EventCode.WALLTIME: "{those} ran longer than the walltime at {cluster}",
    EventCode.FRAG: "{those} {were} deleted at {cluster}",
    EventCode.SITE_FAULT: "{those} {were} lost{hosts} at {cluster}{why}",
    EventCode.PREEMPTED: "{those} lost their places too often, at last at {cluster}",
    EventCode.NOT_STARTED: "{those} could not be started anywhere, at last at {cluster}",
    EventCode.EPILOG_EXIT_ERROR: "its epilogue failed at {cluster}{status}{why}",
    EventCode.RESUBMIT: "{those} asked too often to run again, at last at {cluster}",
}


THEN = {  # what follows from an older state file, as a campaign is now
    CampaignState.PAUSED: "; it is paused: griddel -r {campaign} lets it go on if you wish",
    CampaignState.IN_TREATMENT: "; it goes on with what root's ledger knows",
    CampaignState.TERMINATED: "; it has ended, and nothing is to be done",
    CampaignState.CANCELLED: "; it has ended, and nothing more of it is sent",
}


THEN_AGAIN = "; gridevents -c {campaign} -r takes over what became of them"


def text(event: CampaignEvent, state: CampaignState | None = None) -> str:
    """Say what happened, with what follows as the event's campaign is now, where that is known."""
    status = "" if event.exit_status is None else f" with exit status {event.exit_status}"
    if event.code is EventCode.DROPPED and event.until:
        return f"the tasks at {event.cluster} count as lost: root has written them off"
    is_one = event.tasks == 1
    return WORDS[event.code].format(
        number=event.number or "ID",
        cluster=event.cluster,
        tasks=event.tasks,
        those=count(event.tasks, "task"),
        were="was" if is_one else "were",
        them="it" if is_one else "them",
        alone="by itself" if is_one else "by themselves",
        status=status,
        host=f", all of them on {event.host}" if event.host else "",
        hosts="" if event.why else " with their hosts",
        why=f": {event.why}" if event.why else "",
        ledger=f"{LEDGER}/c.{event.campaign}",
        then=_then(event, state),
    )


def _then(event: CampaignEvent, state: CampaignState | None) -> str:
    """Say what follows from an older state file."""
    words = THEN_AGAIN if event.why else THEN.get(state, "") if state else ""
    return words.format(campaign=event.campaign)


def log_message(event: CampaignEvent, state: CampaignState | None = None) -> str:
    """Say it for the log, with what it is about."""
    owner = "" if event.kind is EventKind.CLUSTER else f"campaign {event.campaign}: "
    over = ", which is over" if event.closed_at else ""
    return f"{owner}{text(event, state)}{over}"
