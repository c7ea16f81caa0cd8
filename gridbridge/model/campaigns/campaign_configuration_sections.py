"""The sections of gridbridge.toml that configure campaigns: keys, defaults, limits and meanings."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.campaigns.nights import are_weekly_nights
from gridbridge.model.config_key_descriptions import OBJECT_NAME, PROGRAM_OR_NONE, ConfigTextFormat, setting


class FairShareUnit(StrEnum):
    """Whose past usage decides how free slots are shared: that of users, projects, groups, or (NONE) nobody."""

    NONE = "none"  # first come, first served
    USER = "user"
    PROJECT = "project"
    GROUP = "group"


class JobRatioRule(StrEnum):
    """The law by which the job ratio (tasks sent per free slot) changes from one cycle to the next."""

    MEASURED = "measured"
    SLOW_START = "slow-start"
    TWO_WAY = "two-way"
    ADAPTIVE = "adaptive"


NAME = "@?[A-Za-z_][A-Za-z0-9_.-]*"
NIGHTS = ConfigTextFormat(
    holds=are_weekly_nights,
    right='H:MM-H:MM or DAY[-DAY] H:MM-H:MM, separated by ", ", such as "20:00-06:00, Sat-Sun 06:00-20:00"',
)
TIME_ZONE = ConfigTextFormat(
    holds=re.compile("([A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*)?").fullmatch, right="a time zone such as Europe/Paris"
)
STORAGE_OR_NONE = ConfigTextFormat(
    holds=lambda text: not text or OBJECT_NAME.holds(text), right="the name of a section [storage.NAME], or empty"
)
PEOPLE = ConfigTextFormat(
    holds=re.compile(f"({NAME}( (?!$)|$))*").fullmatch, right="users, and groups as @GROUP, with blanks between"
)
PRIORITIES = ConfigTextFormat(
    holds=re.compile(f"({NAME}=-?[0-9]{{1,6}}( (?!$)|$))*").fullmatch,
    right="USER=NUMBER and @GROUP=NUMBER, with blanks between; owners without a number have 0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunnerSection:
    """[runner]: the program that sends campaigns' tasks."""

    interval_s: float = setting(15.0, "the pause between two cycles of gridbridge-runner --loop", "s", 5, 3600)
    forgotten_s: float = setting(
        60.0, "how long a cluster reports nothing about a task before the task counts as deleted", "s", 10, 86400
    )
    max_tasks: int = setting(1000, "the largest number of jobs in an array", "jobs", 1, 5000)
    group_below_s: float = setting(
        30.0,
        "the mean run time below which tasks are grouped, several in one job; 0: only if the JDL says so",
        "s",
        0,
        600,
    )
    pull: bool = setting(False, "whether running jobs of several tasks get further tasks until their walltime nears")
    pull_wait_s: int = setting(60, "how long such a job waits for further tasks before it ends", "s", 10, 3600)
    files_per_uid: int = setting(10_000, "the largest number of campaign files of a user", "files", 1, 1_000_000)
    mb_per_uid: int = setting(4096, "the largest total size of a user's campaign files", "MB", 1, 1_000_000)
    keep_campaigns_d: float = setting(365.0, "how long an ended campaign is stored; 0: for ever", "d", 0, 36500)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCampaignsSection:
    """[campaigns.CLUSTER]: how campaigns use a cluster."""

    predictor: JobRatioRule = setting(
        JobRatioRule.MEASURED, "the law that adjusts the number of tasks sent per free slot"
    )
    flood_rate: float = setting(0.1, "the largest number of waiting campaign tasks per slot of the cluster", "", 0, 10)
    start_s: float = setting(
        20.0, "how long a task may take to start on a free slot before the task counts as waiting", "s", 1, 3600
    )
    stress_script: str = setting(
        "", "the script that prints the cluster's stress; empty: no script", form=PROGRAM_OR_NONE
    )
    stress_limit: float = setting(0.8, "the stress at and above which the cluster gets no tasks", "", 0, 1000000)
    affinity: str = setting("", "users and groups whose campaigns run first at the cluster", form=PEOPLE)
    semi_share: float = setting(
        0.2, "the share of the cluster's slots that semi-best-effort tasks may use as ordinary jobs", "", 0, 1
    )
    nights: str = setting("20:00-06:00", "when tasks of type nightly run, in local time", form=NIGHTS)
    time_zone: str = setting(
        "", "the time zone of nights", form=TIME_ZONE, inherits="the time zone of the runner's host"
    )
    inputs_storage: str = setting(
        "",
        "the storage area for input files of tasks, which all nodes see; empty: the owner's home",
        form=STORAGE_OR_NONE,
    )
    inputs_ahead_mb: int = setting(
        10_000, "the largest amount of input files carried to the cluster for tasks without a free slot", "MB", 0, 10**9
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaschedulerSection:
    """[metascheduler]: how free slots are shared among campaigns."""

    share_by: FairShareUnit = setting(
        FairShareUnit.NONE, "what shares free slots evenly: users, projects or groups; none: first come, first served"
    )
    half_life_h: float = setting(24.0, "the time after which past usage counts half", "h", 0.1, 8760)
    first_tasks: int = setting(
        5, "how many tasks of each user, project or group are sent before free slots are shared", "tasks", 0, 1000
    )
    priorities: str = setting("", "priorities of campaign owners; the highest number comes first", form=PRIORITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSection:
    """[nikita]: after which times nikita deletes tasks that wait or run too long."""

    interval_s: float = setting(60.0, "the pause between two cycles of gridbridge-nikita --loop", "s", 5, 3600)
    grace_s: float = setting(60.0, "how long tasks in excess of flood_rate may wait before deletion", "s", 10, 86400)
    waiting_s: float = setting(
        900.0, "how long a task may wait at a cluster before the task is deleted and sent again", "s", 60, 2592000
    )
    over_walltime_s: float = setting(
        1800.0, "how long a task may exceed its walltime before the task is deleted", "s", 60, 2592000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFailuresSection:
    """[failures]: how often tasks are retried, and when a cluster is closed."""

    asked: int = setting(100, "how often a task may request a retry (exit status 66 or 67)", "times", 0, 1000000)
    preempted: int = setting(1000, "how often a preempted task runs again", "times", 0, 1000000)
    site_fault: int = setting(3, "how often a task runs again after the loss of its host", "times", 0, 1000000)
    walltime: int = setting(
        2, "how often a task that exceeded its walltime runs again at another cluster", "times", 0, 1000000
    )
    setup_error: int = setting(3, "how often a task that no cluster could start is tried again", "times", 0, 1000000)
    program_errors: int = setting(
        5, "how many tasks of a campaign must fail in a row to close a cluster to the campaign", "tasks", 1, 1000000
    )
    probe_s: float = setting(
        60.0, "the first pause before a task probes a closed cluster; each further pause doubles", "s", 1, 86400
    )
    probe_max_s: float = setting(3600.0, "the longest pause before a task probes a closed cluster", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSpeculationSection:
    """[finalize]: speculative attempts at the end of a campaign."""

    copies: int = setting(2, "the largest number of speculative (extra) attempts of a task; 0: none", "copies", 0, 2)
    least_s: float = setting(60.0, "the least run time of a task that gets a speculative attempt", "s", 1, 2592000)
    limit_s: float = setting(3600.0, "how long after the last sent task the end phase begins", "s", 60, 2592000)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsSection:
    mail: str = setting(
        "/usr/sbin/sendmail", "the program that sends mail; empty: no mail is sent", form=PROGRAM_OR_NONE
    )
    command: str = setting(
        "", "the program that delivers messages of gridnotify -j; empty: no program", form=PROGRAM_OR_NONE
    )
    pause_s: float = setting(60.0, "the least time between two messages to the same address", "s", 1, 86400)
    tries: int = setting(5, "how often the delivery of a message is tried", "times", 1, 1000)
    retry_s: float = setting(
        60.0, "the pause after the first failed delivery; each further pause doubles", "s", 1, 86400
    )
