"""Fixed paths and exit statuses, so that starters and sensors read no configuration."""

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"  # home of the service account, whose uid runs the service
IN_FORCE = f"{HOME}/gridbridge.toml"  # copy of the configuration in force
LOCK = f"{HOME}/poller.lock"  # held by the poller while it runs
REBALANCE_LOCK = f"{HOME}/rebalance.lock"  # held while tasks are being moved
REPLICAS_LOCK = f"{HOME}/replicas.lock"  # held while replicas are being carried
CARRYING_LOCK = f"{HOME}/carrying.lock"  # shared lock, held during copies of earlier rounds
READING_LOCK = f"{HOME}/reading.lock"  # held while replicas are being read
METRICS_LOCK = "/run/gridbridge-metrics/lock"  # held by the unit gridbridge-metrics while it runs
RUNNER_LOCK = f"{HOME}/runner.lock"  # held by the campaign runner while it runs
NIKITA_LOCK = f"{HOME}/nikita.lock"  # held by nikita while it runs
NIKITA_CLOCKS = f"{HOME}/nikita.clocks"  # this host's clocks at nikita's last round
RUNNER_CLOCKS = f"{HOME}/runner.clocks"  # this host's clocks at the campaign runner's last round
RUNNER_RAN = f"{HOME}/runner.ran"  # campaign tasks that ran at the campaign runner's last round
RUNNER_SITE = f"{HOME}/runner.site"  # site name in remote arrays' names
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
BALANCE_ENDS = f"{BALANCE_HOME}/ends.json"  # list of jobs that have ended recently
SPOOL = "/var/spool/gridbridge"
CAMPAIGNS = f"{SPOOL}/campaigns"  # campaign files of all owners
TAKEN_REQUEST = "begun/took."  # path prefix of requests in progress, below CAMPAIGNS
KEPT_DATASET = "data."  # prefix of a watched dataset's file in an owner's campaign folder
WISH = "tell."  # prefix of a notification request's file, below CAMPAIGNS
ADMISSION = "/etc/gridbridge/admission.d"  # the site's admission rules for campaigns
LEDGER = "/var/lib/gridbridge-ledger"  # root's own ledger of submitted tasks
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # outside HOME, where others could put links
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_ROOT = "/opt/gridbridge/bin/gridbridge-as-root"
BOOTSTRAP = "/opt/gridbridge/conf/bootstrap"  # scripts that run on new machines
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
# Exit statuses of gridbridge-as-user.
NOT_OURS = 3  # the remote job id belongs to another job than the transfer's
REFUSED_THERE = 4  # the cluster will never accept this array
SUBMITTED_BEFORE = 5  # root's ledger has the array's tasks in another array
NO_OWNER = 6  # the account of a campaign's owner is unknown now
LEDGER_CUT = "ledger-cut"  # prefix of a stderr line about a ledger with a truncated line
NO_LEDGER = 7  # root's ledger of a campaign is unreadable or lacks an array
HAS_ENDED = 8  # root's ledger records the campaign's end
NO_FILE = 9  # the file of a campaign or of its part is unreadable now
NOT_NOW = 75  # no job was submitted; the same call may succeed later
METHODS = "/opt/gridbridge/sge-methods"
ORDERED = "/etc/gridbridge/seq_no.json"  # seq_no of each queue before setup's changes
FORMER = "/etc/gridbridge/former.json"  # shared settings before setup's changes
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
