"""Paths and exit statuses that are the same at every site, so that starters need no configuration."""

from gridbridge.model import light_dataclass

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"
IN_FORCE = f"{HOME}/gridbridge.toml"  # copy of gridbridge.toml as now in force
LOCK = f"{HOME}/poller.lock"  # lock file of the running gridbridge-poller
REBALANCE_LOCK = f"{HOME}/rebalance.lock"  # lock file of the running process that moves waiting tasks
REPLICAS_LOCK = f"{HOME}/replicas.lock"  # lock file of the running process that copies replicas of datasets
CARRYING_LOCK = f"{HOME}/carrying.lock"  # lock file that all running replica copies share
READING_LOCK = f"{HOME}/reading.lock"  # lock file of the running process that checks replicas by reading them
METRICS_LOCK = "/run/gridbridge-metrics/lock"
RUNNER_LOCK = f"{HOME}/runner.lock"
NIKITA_LOCK = f"{HOME}/nikita.lock"
NIKITA_CLOCKS = f"{HOME}/nikita.clocks"  # this host's clock readings in nikita's last cycle
RUNNER_CLOCKS = f"{HOME}/runner.clocks"  # this host's clock readings in the runner's last cycle
RUNNER_SITE = f"{HOME}/runner.site"  # the site name that is part of each array's job name
PUBLISHED = f"{HOME}/published"
RUNNER_RAN = f"{PUBLISHED}/runner.ran"  # campaign tasks that ran in the last cycle of any master's runner
CAMPAIGN_PROGRAMS = ("gridbridge-runner", "gridbridge-nikita")
CAMPAIGN_CRON = "/etc/cron.d/gridbridge-campaigns"
DATASET_CRON = "/etc/cron.d/gridbridge-datasets"
UNIT_FOLDER = "/etc/systemd/system"
BALANCE_ACCOUNT = "gridbridge-admin"
BALANCE_HOME = f"/var/lib/{BALANCE_ACCOUNT}"
BALANCE_PROGRAM = "/opt/gridbridge/bin/gridbridge-balance"
BALANCE_SUDOERS = f"/etc/sudoers.d/{BALANCE_ACCOUNT}"
BALANCE_CRON = "/etc/cron.d/gridbridge-balance"
BALANCE_UNIT = "/etc/systemd/system/gridbridge-balance.service"
BALANCE_LOG = f"{BALANCE_HOME}/balance.log"
BALANCE_STATE = f"{BALANCE_HOME}/state.db"
BALANCE_LOCK = f"{BALANCE_HOME}/balance.lock"
BALANCE_PUBLISHED = f"{BALANCE_HOME}/published"
BALANCE_STATS = f"{BALANCE_HOME}/balance-stats.csv"  # statistics of rounds, written with --dump-stats
BALANCE_PLOTS = f"{BALANCE_HOME}/plots"
BALANCE_WISHES = "/var/spool/gridbridge-power"  # folder of OAR's requests to switch nodes on or off
BALANCE_ENDS = f"{BALANCE_HOME}/ends.json"
SPOOL = "/var/spool/gridbridge"
CAMPAIGNS = f"{SPOOL}/campaigns"  # folder of the campaign files of all owners
TAKEN_REQUEST = "begun/took."  # path prefix, below CAMPAIGNS, of an owner's request that is being carried out
MARKED_FOLDERS = (f"{CAMPAIGNS}/begun", PUBLISHED)  # shared folders that masters mark, besides root's ledger
KEPT_DATASET = "data."  # file name prefix of datasets in an owner's folder below CAMPAIGNS
WISH = "tell."  # file name prefix of subscriptions to messages, below CAMPAIGNS
ADMISSION = "/etc/gridbridge/admission.d"  # folder of the site's admission rules for campaigns
LEDGER = "/var/lib/gridbridge-ledger"  # folder of root's ledger, which lists all submitted tasks of campaigns
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # not in HOME: root must not write where others may put links
USAGE_LOG = "/var/log/gridbridge-usage.log"
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_ROOT = "/opt/gridbridge/bin/gridbridge-as-root"
BOOTSTRAP = "/opt/gridbridge/conf/bootstrap"  # folder of scripts that set up new machines
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
# Exit statuses of gridbridge-as-user.
NOT_OURS = 3  # the job with this id is not the expected job
REFUSED_THERE = 4  # the cluster will never accept the array
SUBMITTED_BEFORE = 5  # according to root's ledger the tasks were submitted in another array
NO_OWNER = 6  # the account of the campaign's owner does not exist at the moment
LEDGER_CUT = "ledger-cut"  # start of the message about a cut line in root's ledger
NO_LEDGER = 7  # root's ledger is unreadable or lacks an array
HAS_ENDED = 8  # according to root's ledger the campaign has ended
NO_FILE = 9  # a campaign file can't be read at the moment
MASTER_TERM = "term="  # start of the first argument of gridbridge-as-user, as in term=runner.5
DEPOSED = 10  # another master of the campaign service leads
NOT_NOW = 75  # no job was submitted; a later try may succeed
METHODS = "/opt/gridbridge/sge-methods"
ORDERED = "/etc/gridbridge/seq_no.json"  # the seq_no of each queue before `gridbridge setup`
FORMER = "/etc/gridbridge/former.json"  # values that settings had before `gridbridge setup` changed them
BEST_EFFORT = "gb_besteffort"  # name of the resource that marks queues with preemptible jobs
# Root runs the programs in these folders, and trusts the files in them.
ROOTS = (METHODS, "/opt/gridbridge/venv", "/opt/gridbridge/bin", "/opt/gridbridge/conf", "/etc/gridbridge")
SUDOERS = "/etc/sudoers.d/gridbridge"
SET_UP = "gridbridge setup host --apply"
BALANCE_SET_UP = "gridbridge setup balance --apply makes the account on the host of the qmaster"
ELSEWHERE = "run this on the transfer host, where the service is"


@light_dataclass(kw_only=True, frozen=True)
class FixedPaths:
    """Paths as parameters of programs: tests use other paths, and options of commands set some paths."""

    configuration: str = CONFIG
    published: str = PUBLISHED
    campaigns: str = CAMPAIGNS
    admission: str = ADMISSION
    admission_owner: int = 0  # uid of the account that alone may write admission rules
