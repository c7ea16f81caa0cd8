"""Where gridbridge keeps things: fixed, so that no hot program has to read a configuration."""

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"  # the service account's; its owner is the service's uid
IN_FORCE = f"{HOME}/gridbridge.toml"  # the file in force: the jobs that are away were sent by it
LOCK = f"{HOME}/poller.lock"  # held by the poller while it runs
REBALANCE_LOCK = f"{HOME}/rebalance.lock"  # held while tasks are being moved
REPLICAS_LOCK = f"{HOME}/replicas.lock"  # held while replicas are being carried
CARRYING_LOCK = f"{HOME}/carrying.lock"  # held, by several, while copies of earlier rounds go on
READING_LOCK = f"{HOME}/reading.lock"  # held while replicas are being read
METRICS_LOCK = "/run/gridbridge-metrics/lock"  # held by the unit gridbridge-metrics while it runs
RUNNER_LOCK = f"{HOME}/runner.lock"  # held by the campaign runner while it runs
NIKITA_LOCK = f"{HOME}/nikita.lock"  # held by nikita while it runs
NIKITA_CLOCKS = f"{HOME}/nikita.clocks"  # what this host's clocks said when it last looked
RUNNER_CLOCKS = f"{HOME}/runner.clocks"  # the same, of the campaign runner
RUNNER_RAN = f"{HOME}/runner.ran"  # which tasks of campaigns ran when it last looked
RUNNER_SITE = f"{HOME}/runner.site"  # the site's name, which the arrays that are away bear
PUBLISHED = f"{HOME}/published"
BALANCE_ACCOUNT = "gridbridge-admin"  # who adds and removes nodes
BALANCE_HOME = f"/var/lib/{BALANCE_ACCOUNT}"
BALANCE_PROGRAM = "/opt/gridbridge/bin/gridbridge-balance"
BALANCE_SUDOERS = f"/etc/sudoers.d/{BALANCE_ACCOUNT}"
BALANCE_CRON = "/etc/cron.d/gridbridge-balance"
BALANCE_UNIT = "/etc/systemd/system/gridbridge-balance.service"
BALANCE_LOG = f"{BALANCE_HOME}/balance.log"  # of cron's rounds
BALANCE_STATE = f"{BALANCE_HOME}/state.db"
BALANCE_LOCK = f"{BALANCE_HOME}/balance.lock"  # held by gridbridge-balance while it runs
BALANCE_PUBLISHED = f"{BALANCE_HOME}/published"
BALANCE_STATS = f"{BALANCE_HOME}/balance-stats.csv"  # a row a round, of --dump-stats
BALANCE_PLOTS = f"{BALANCE_HOME}/plots"
BALANCE_WISHES = "/var/spool/gridbridge-power"  # what OAR wants of nodes' power
BALANCE_ENDS = f"{BALANCE_HOME}/ends.json"  # what ended of late
SPOOL = "/var/spool/gridbridge"
CAMPAIGNS = f"{SPOOL}/campaigns"  # people's campaign files
TAKEN_REQUEST = "begun/took."  # there, too: requests that the service is doing
KEPT_DATASET = "data."  # in each person's folder there: datasets that the service looks after
WISH = "tell."  # there, whose names begin with it: requests to be told by a program
ADMISSION = "/etc/gridbridge/admission.d"  # rules of the site for campaigns
LEDGER = "/var/lib/gridbridge-ledger"  # root's own: which tasks were submitted
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # not in HOME: others could put links there
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_ROOT = "/opt/gridbridge/bin/gridbridge-as-root"
BOOTSTRAP = "/opt/gridbridge/conf/bootstrap"  # what is run on new machines
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
NOT_OURS = 3  # its exit status: the id belongs to another job than this transfer's
REFUSED_THERE = 4  # the same: the cluster will never take this array
SUBMITTED_BEFORE = 5  # the same: root's ledger has these tasks in another array
NO_OWNER = 6  # the same: nobody knows the account of a campaign's owner now
LEDGER_CUT = "ledger-cut"  # begins a line on its standard error: a ledger, bytes of half a line
NO_LEDGER = 7  # the same: root's ledger of a campaign can't be read, or lacks an array
HAS_ENDED = 8  # the same: root's ledger has the campaign's end
NO_FILE = 9  # the same: a campaign's file, or that of a part, can't be read now
NOT_NOW = 75  # the same: nothing was submitted, and the same call may succeed later
METHODS = "/opt/gridbridge/sge-methods"
ORDERED = "/etc/gridbridge/seq_no.json"  # the numbers of queues before setup gave others
FORMER = "/etc/gridbridge/former.json"  # what setup found before it changed shared settings
BEST_EFFORT = "gb_besteffort"  # the resource of queues whose jobs make way for all others
# What root runs, and what it obeys.
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
ELSEWHERE = "run this on the transfer host, where the service is"  # to whoever is on another
