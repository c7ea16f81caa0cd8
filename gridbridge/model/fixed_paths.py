"""Fixed paths and exit statuses, so that hot programs read no configuration."""

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"  # home of the service account, whose uid runs the service
IN_FORCE = f"{HOME}/gridbridge.toml"  # the configuration in force, which sent the open transfers
LOCK = f"{HOME}/poller.lock"  # held by the poller while it runs
REBALANCE_LOCK = f"{HOME}/rebalance.lock"  # held while tasks are being moved
REPLICAS_LOCK = f"{HOME}/replicas.lock"  # held while replicas are being carried
CARRYING_LOCK = f"{HOME}/carrying.lock"  # shared lock, held while copies of earlier rounds continue
READING_LOCK = f"{HOME}/reading.lock"  # held while replicas are being read
METRICS_LOCK = "/run/gridbridge-metrics/lock"  # held by the unit gridbridge-metrics while it runs
RUNNER_LOCK = f"{HOME}/runner.lock"  # held by the campaign runner while it runs
NIKITA_LOCK = f"{HOME}/nikita.lock"  # held by nikita while it runs
NIKITA_CLOCKS = f"{HOME}/nikita.clocks"  # this host's clocks at nikita's last round
RUNNER_CLOCKS = f"{HOME}/runner.clocks"  # this host's clocks at the campaign runner's last round
RUNNER_RAN = f"{HOME}/runner.ran"  # campaign tasks that ran at the campaign runner's last round
RUNNER_SITE = f"{HOME}/runner.site"  # the site's name, part of the names of remote arrays
PUBLISHED = f"{HOME}/published"
BALANCE_ACCOUNT = "gridbridge-admin"  # the account that adds and removes nodes
BALANCE_HOME = f"/var/lib/{BALANCE_ACCOUNT}"
BALANCE_PROGRAM = "/opt/gridbridge/bin/gridbridge-balance"
BALANCE_SUDOERS = f"/etc/sudoers.d/{BALANCE_ACCOUNT}"
BALANCE_CRON = "/etc/cron.d/gridbridge-balance"
BALANCE_UNIT = "/etc/systemd/system/gridbridge-balance.service"
BALANCE_LOG = f"{BALANCE_HOME}/balance.log"  # log of the rounds that cron starts
BALANCE_STATE = f"{BALANCE_HOME}/state.db"
BALANCE_LOCK = f"{BALANCE_HOME}/balance.lock"  # held by gridbridge-balance while it runs
BALANCE_PUBLISHED = f"{BALANCE_HOME}/published"
BALANCE_STATS = f"{BALANCE_HOME}/balance-stats.csv"  # one row for each round with --dump-stats
BALANCE_PLOTS = f"{BALANCE_HOME}/plots"
BALANCE_WISHES = "/var/spool/gridbridge-power"  # OAR's power requests for nodes
BALANCE_ENDS = f"{BALANCE_HOME}/ends.json"  # recently ended jobs
SPOOL = "/var/spool/gridbridge"
CAMPAIGNS = f"{SPOOL}/campaigns"  # campaign files of all owners
TAKEN_REQUEST = "begun/took."  # below CAMPAIGNS: requests in progress
KEPT_DATASET = "data."  # prefix in an owner's campaign folder: watched datasets
WISH = "tell."  # prefix below CAMPAIGNS: requests for a notification by a program
ADMISSION = "/etc/gridbridge/admission.d"  # the site's admission rules for campaigns
LEDGER = "/var/lib/gridbridge-ledger"  # root's own ledger of submitted tasks
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # not in HOME: others could put links there
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_ROOT = "/opt/gridbridge/bin/gridbridge-as-root"
BOOTSTRAP = "/opt/gridbridge/conf/bootstrap"  # scripts that run on new machines
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
# Exit statuses of gridbridge-as-user.
NOT_OURS = 3  # the remote id belongs to another job than this transfer's
REFUSED_THERE = 4  # the cluster will never accept this array
SUBMITTED_BEFORE = 5  # root's ledger has these tasks in another array
NO_OWNER = 6  # the account of a campaign's owner is unknown now
LEDGER_CUT = "ledger-cut"  # prefix of a stderr line: ledger, bytes of its cut line
NO_LEDGER = 7  # root's ledger of a campaign is unreadable or lacks an array
HAS_ENDED = 8  # root's ledger has the campaign's end
NO_FILE = 9  # the file of a campaign or of a campaign part is unreadable now
NOT_NOW = 75  # no job was submitted; the same call may succeed later
METHODS = "/opt/gridbridge/sge-methods"
ORDERED = "/etc/gridbridge/seq_no.json"  # seq_no of the queues before setup changed these numbers
FORMER = "/etc/gridbridge/former.json"  # shared settings before setup changed these settings
BEST_EFFORT = "gb_besteffort"  # the resource of queues with preemptible jobs
# Paths of programs that root runs and of files that root obeys.
ROOTS = (
    METHODS,
    "/opt/gridbridge/venv",
    "/opt/gridbridge/bin",
    "/opt/gridbridge/conf",
    "/etc/gridbridge",
)
SUDOERS = "/etc/sudoers.d/gridbridge"
SET_UP = "gridbridge setup host --apply"
BALANCE_SET_UP = "on the host of the qmaster gridbridge setup balance --apply makes it"
ELSEWHERE = "run this on the transfer host, where the service is"  # hint for people on another host
