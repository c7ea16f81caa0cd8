"""What gridbridge.toml says of campaigns."""

import re
from dataclasses import dataclass

from gridbridge.model.campaigns.jobratio import Law
from gridbridge.model.campaigns.sharing import ShareBy
from gridbridge.model.settings import Form, setting

NAME = "@?[A-Za-z_][A-Za-z0-9_.-]*"
SCRIPT = Form(
    holds=re.compile("(/[ -~]*)?").fullmatch,
    right="an absolute path in printable ASCII, or empty",
)
PEOPLE = Form(
    holds=re.compile(f"({NAME}( (?!$)|$))*").fullmatch,
    right="users, and groups as @GROUP, with blanks between",
)
PRIORITIES = Form(
    holds=re.compile(f"({NAME}=-?[0-9]{{1,6}}( (?!$)|$))*").fullmatch,
    right="USER=NUMBER and @GROUP=NUMBER, with blanks between; 0 is everybody else's",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The one process that sends campaigns' tasks."""

    interval_s: float = setting(15.0, "the pause between two cycles of --loop", "s", 5, 3600)
    forgotten_s: float = setting(
        60.0, "a task that is neither listed nor accounted for counts as deleted", "s", 10, 86400
    )
    max_tasks: int = setting(1000, "the most tasks of one array", "tasks", 1, 5000)
    files_per_uid: int = setting(10_000, "campaign files of one user", "files", 1, 1_000_000)
    mb_per_uid: int = setting(4096, "how large they are together", "MB", 1, 1_000_000)
    keep_campaigns_d: float = setting(
        365.0, "so long after its end a campaign is purged; 0: never", "d", 0, 36500
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignsAt:
    """How campaigns use a cluster."""

    predictor: Law = setting(Law.MEASURED, "how the number of tasks for its free slots is learnt")
    flood_rate: float = setting(
        0.1, "so many tasks of campaigns may wait, for each of its slots", "", 0, 10
    )
    start_s: float = setting(
        20.0,
        "a task that has room and has not started after this time counts as waiting",
        "s",
        1,
        3600,
    )
    stress_script: str = setting(
        "", "a script that prints how stressed the cluster is; empty: none", form=SCRIPT
    )
    stress_limit: float = setting(0.8, "nothing is sent while it is as stressed", "", 0, 1000000)
    affinity: str = setting("", "whose campaigns it runs before those of others", form=PEOPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metascheduler:
    """What decides which campaigns get the free slots."""

    share_by: ShareBy = setting(
        ShareBy.NONE, "who shares them evenly; none: first come, first served"
    )
    half_life_h: float = setting(
        24.0, "what somebody has used counts half after so long", "h", 0.1, 8760
    )
    first_tasks: int = setting(
        5, "so many tasks of each who shares come before all shares", "tasks", 0, 1000
    )
    priorities: str = setting("", "whose campaigns go first, the highest number", form=PRIORITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nikita:
    """What deletes tasks that wait or run where they should not."""

    interval_s: float = setting(60.0, "the pause between two cycles of --loop", "s", 5, 3600)
    grace_s: float = setting(
        60.0, "tasks above the flood rate wait so long before they are deleted", "s", 10, 86400
    )
    waiting_s: float = setting(
        900.0, "a task that waits longer is deleted, and sent again", "s", 60, 2592000
    )
    over_walltime_s: float = setting(
        1800.0, "a task that runs so long after its walltime is deleted", "s", 60, 2592000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How often tasks are tried again, and when a cluster gets no more of a campaign."""

    asked: int = setting(
        100, "how often a task may ask to run again (66 and 67)", "times", 0, 1000000
    )
    preempted: int = setting(
        1000, "how often it runs again because it lost its place", "times", 0, 1000000
    )
    site_fault: int = setting(3, "the same because its host was lost", "times", 0, 1000000)
    walltime: int = setting(
        2, "the same, elsewhere, because it ran longer than its walltime", "times", 0, 1000000
    )
    setup_error: int = setting(3, "the same because no cluster could start it", "times", 0, 1000000)
    program_errors: int = setting(
        5, "tasks in a row that fail by themselves close a cluster", "tasks", 1, 1000000
    )
    probe_s: float = setting(60.0, "a closed cluster is tried again after this", "s", 1, 86400)
    probe_max_s: float = setting(3600.0, "which doubles up to this", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalize:
    """What makes the end of a campaign shorter."""

    copies: int = setting(2, "the most copies of a task that runs long; 0: none", "copies", 0, 2)
    least_s: float = setting(60.0, "a task that has run for less gets none", "s", 1, 2592000)
    limit_s: float = setting(
        3600.0, "so long after its last task was sent a campaign is at its end", "s", 60, 2592000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """How people are told of their campaigns."""

    mail: str = setting(
        "/usr/sbin/sendmail", "the program that sends mails; empty: none are sent", form=SCRIPT
    )
    command: str = setting(
        "", "a program that is given messages for gridnotify -j; empty: none", form=SCRIPT
    )
    pause_s: float = setting(
        60.0, "nobody gets a second message on one way within this", "s", 1, 86400
    )
    tries: int = setting(5, "a message that can't be sent is tried so often", "times", 1, 1000)
    retry_s: float = setting(
        60.0, "the pause before the second try, then it doubles", "s", 1, 86400
    )
