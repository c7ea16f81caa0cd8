"""The sections of gridbridge.toml that configure campaigns."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.key_settings import ConfigTextFormat, setting


class FairShareUnit(StrEnum):
    """The unit among which free slots are shared: user, project, group, or none."""

    NONE = "none"  # first come, first served
    USER = "user"
    PROJECT = "project"
    GROUP = "group"


class JobRatioRule(StrEnum):
    """The law by which a job ratio follows the outcomes of sent tasks."""

    MEASURED = "measured"
    SLOW_START = "slow-start"
    TWO_WAY = "two-way"
    ADAPTIVE = "adaptive"


NAME = "@?[A-Za-z_][A-Za-z0-9_.-]*"
SCRIPT = ConfigTextFormat(
    holds=re.compile("(/[ -~]*)?").fullmatch, right="an absolute path in printable ASCII, or empty"
)
PEOPLE = ConfigTextFormat(
    holds=re.compile(f"({NAME}( (?!$)|$))*").fullmatch, right="users, and groups as @GROUP, with blanks between"
)
PRIORITIES = ConfigTextFormat(
    holds=re.compile(f"({NAME}=-?[0-9]{{1,6}}( (?!$)|$))*").fullmatch,
    right="USER=NUMBER and @GROUP=NUMBER, with blanks between; 0 is everybody else's",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunnerSection:
    """[runner]: the program that sends campaigns' tasks."""

    interval_s: float = setting(15.0, "the pause between two cycles of --loop", "s", 5, 3600)
    forgotten_s: float = setting(
        60.0, "a task that is neither listed nor accounted for this long counts as deleted", "s", 10, 86400
    )
    max_tasks: int = setting(1000, "the most tasks of one array", "tasks", 1, 5000)
    files_per_uid: int = setting(10_000, "the most campaign files of one user", "files", 1, 1_000_000)
    mb_per_uid: int = setting(4096, "the most megabytes of campaign files of one user", "MB", 1, 1_000_000)
    keep_campaigns_d: float = setting(365.0, "a campaign is purged this long after its end; 0: never", "d", 0, 36500)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCampaignsSection:
    """[campaigns.CLUSTER]: how campaigns use a cluster."""

    predictor: JobRatioRule = setting(JobRatioRule.MEASURED, "the law by which the job ratio changes")
    flood_rate: float = setting(0.1, "how many tasks of campaigns may wait, for each of its slots", "", 0, 10)
    start_s: float = setting(
        20.0, "a task that has room and has not started after this time counts as waiting", "s", 1, 3600
    )
    stress_script: str = setting("", "a script that prints the stress of the cluster; empty: none", form=SCRIPT)
    stress_limit: float = setting(0.8, "the stress from which on nothing is sent there", "", 0, 1000000)
    affinity: str = setting("", "users and groups whose campaigns come before those of others", form=PEOPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaschedulerSection:
    """[metascheduler]: how free slots are shared among campaigns."""

    share_by: FairShareUnit = setting(
        FairShareUnit.NONE, "by whom free slots are shared evenly; none: first come, first served"
    )
    half_life_h: float = setting(24.0, "the time after which past use counts half", "h", 0.1, 8760)
    first_tasks: int = setting(5, "tasks of each user, project or group that come before all shares", "tasks", 0, 1000)
    priorities: str = setting("", "priorities of owners; the highest number comes first", form=PRIORITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSection:
    """[nikita]: when tasks that wait or run too long are deleted."""

    interval_s: float = setting(60.0, "the pause between two cycles of --loop", "s", 5, 3600)
    grace_s: float = setting(60.0, "how long tasks above the flood rate wait before they are deleted", "s", 10, 86400)
    waiting_s: float = setting(900.0, "a task that waits for longer is deleted, and sent again", "s", 60, 2592000)
    over_walltime_s: float = setting(
        1800.0, "a task that runs this long after its walltime is deleted", "s", 60, 2592000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFailuresSection:
    """[failures]: how often tasks are retried, and when a cluster is closed."""

    asked: int = setting(100, "how often a task may ask to run again (66 and 67)", "times", 0, 1000000)
    preempted: int = setting(1000, "how often a preempted task runs again", "times", 0, 1000000)
    site_fault: int = setting(3, "how often a task runs again after its host was lost", "times", 0, 1000000)
    walltime: int = setting(
        2, "how often a task runs again, elsewhere, after it overran its walltime", "times", 0, 1000000
    )
    setup_error: int = setting(3, "how often a task is tried again that no cluster could start", "times", 0, 1000000)
    program_errors: int = setting(
        5, "how many tasks in a row that fail by themselves close a cluster", "tasks", 1, 1000000
    )
    probe_s: float = setting(
        60.0, "the pause before a closed cluster is tried again; each pause doubles", "s", 1, 86400
    )
    probe_max_s: float = setting(3600.0, "the longest such pause", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeSpeculationSection:
    """[finalize]: speculative attempts at the end of a campaign."""

    copies: int = setting(2, "the most speculative attempts of a task; 0: none", "copies", 0, 2)
    least_s: float = setting(60.0, "how long a task must have run to get a speculative attempt", "s", 1, 2592000)
    limit_s: float = setting(
        3600.0, "a campaign is at its end this long after its last task was sent", "s", 60, 2592000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsSection:
    """[notifications]: how users are notified of events of their campaigns."""

    mail: str = setting("/usr/sbin/sendmail", "the program that sends mails; empty: none are sent", form=SCRIPT)
    command: str = setting("", "the program that gets messages of gridnotify -j; empty: none", form=SCRIPT)
    pause_s: float = setting(60.0, "the shortest time between two messages to a person by one way", "s", 1, 86400)
    tries: int = setting(5, "how often a message is tried", "times", 1, 1000)
    retry_s: float = setting(60.0, "the pause before the second try; each further pause doubles", "s", 1, 86400)
