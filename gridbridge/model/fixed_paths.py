"""Paths and exit statuses that no site configures.

Fixed values let starters and load sensors run without reading the configuration.
"""

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"  # home of account gridbridge
IN_FORCE = f"{HOME}/gridbridge.toml"  # copy of the configuration that is in force
LOCK = f"{HOME}/poller.lock"  # lock file of the running gridbridge-poller
REBALANCE_LOCK = f"{HOME}/rebalance.lock"  # lock file of the process that moves tasks
REPLICAS_LOCK = f"{HOME}/replicas.lock"  # lock file of the process that copies replicas
CARRYING_LOCK = f"{HOME}/carrying.lock"  # lock file shared by the running copies of replicas
READING_LOCK = f"{HOME}/reading.lock"  # lock file of the scrub that reads replicas
METRICS_LOCK = "/run/gridbridge-metrics/lock"  # lock file of the running unit gridbridge-metrics
RUNNER_LOCK = f"{HOME}/runner.lock"  # lock file of the running gridbridge-runner
NIKITA_LOCK = f"{HOME}/nikita.lock"  # lock file of the running gridbridge-nikita
NIKITA_CLOCKS = f"{HOME}/nikita.clocks"  # readings of this host's clocks in nikita's last cycle
RUNNER_CLOCKS = f"{HOME}/runner.clocks"  # readings of this host's clocks in the runner's last cycle
RUNNER_RAN = f"{HOME}/runner.ran"  # campaign tasks that ran in the runner's last cycle
RUNNER_SITE = f"{HOME}/runner.site"  # site name in the job names of arrays
PUBLISHED = f"{HOME}/published"
BALANCE_ACCOUNT = "gridbridge-admin"  # account of the balancer
BALANCE_HOME = f"/var/lib/{BALANCE_ACCOUNT}"
BALANCE_PROGRAM = "/opt/gridbridge/bin/gridbridge-balance"
BALANCE_SUDOERS = f"/etc/sudoers.d/{BALANCE_ACCOUNT}"
BALANCE_CRON = "/etc/cron.d/gridbridge-balance"
BALANCE_UNIT = "/etc/systemd/system/gridbridge-balance.service"
BALANCE_LOG = f"{BALANCE_HOME}/balance.log"
BALANCE_STATE = f"{BALANCE_HOME}/state.db"
BALANCE_LOCK = f"{BALANCE_HOME}/balance.lock"  # lock file of the running gridbridge-balance
BALANCE_PUBLISHED = f"{BALANCE_HOME}/published"
BALANCE_STATS = f"{BALANCE_HOME}/balance-stats.csv"  # table of the rounds that ran with --dump-stats
BALANCE_PLOTS = f"{BALANCE_HOME}/plots"
BALANCE_WISHES = "/var/spool/gridbridge-power"  # OAR's requests to switch nodes on or off
BALANCE_ENDS = f"{BALANCE_HOME}/ends.json"
SPOOL = "/var/spool/gridbridge"
CAMPAIGNS = f"{SPOOL}/campaigns"  # campaign files of all owners
TAKEN_REQUEST = "begun/took."  # path prefix of a request in progress, below CAMPAIGNS
KEPT_DATASET = "data."  # file name prefix of a dataset in its owner's campaign folder
WISH = "tell."  # file name prefix of a request for messages, below CAMPAIGNS
ADMISSION = "/etc/gridbridge/admission.d"  # the site's admission rules for campaigns
LEDGER = "/var/lib/gridbridge-ledger"  # root's ledger of submitted tasks
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # outside HOME: root must not write where another account may put links
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_ROOT = "/opt/gridbridge/bin/gridbridge-as-root"
BOOTSTRAP = "/opt/gridbridge/conf/bootstrap"  # scripts for new machines
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
# Exit statuses of gridbridge-as-user.
NOT_OURS = 3  # the remote job id belongs to another job
REFUSED_THERE = 4  # the cluster will never accept the array
SUBMITTED_BEFORE = 5  # root's ledger has the tasks in another array
NO_OWNER = 6  # the account of the campaign's owner does not exist now
LEDGER_CUT = "ledger-cut"  # prefix of a message about a truncated line in root's ledger
NO_LEDGER = 7  # root's ledger is unreadable or lacks an array
HAS_ENDED = 8  # root's ledger says that the campaign has ended
NO_FILE = 9  # a campaign file is unreadable now
NOT_NOW = 75  # no job was submitted; a later try may succeed
METHODS = "/opt/gridbridge/sge-methods"
ORDERED = "/etc/gridbridge/seq_no.json"  # seq_no that each queue had before `gridbridge setup`
FORMER = "/etc/gridbridge/former.json"  # former values of the settings that `gridbridge setup` changed
BEST_EFFORT = "gb_besteffort"  # resource of queues with preemptible jobs
# Root runs the programs in these folders, and trusts the files in them.
ROOTS = (METHODS, "/opt/gridbridge/venv", "/opt/gridbridge/bin", "/opt/gridbridge/conf", "/etc/gridbridge")
SUDOERS = "/etc/sudoers.d/gridbridge"
SET_UP = "gridbridge setup host --apply"
BALANCE_SET_UP = "gridbridge setup balance --apply makes the account on the host of the qmaster"
ELSEWHERE = "run this on the transfer host, where the service is"
