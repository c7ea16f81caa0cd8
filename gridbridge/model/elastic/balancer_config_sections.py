"""Sections of gridbridge.toml that configure an elastic cluster."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.config_key_descriptions import ASKED, OBJECT_NAME, ConfigTextFormat, QueueDefaultRequests, setting
from gridbridge.model.elastic.balance_plan import BalancePolicyName


def _regex_text_format(pattern: str, right: str) -> ConfigTextFormat:
    return ConfigTextFormat(holds=re.compile(pattern).fullmatch, right=right)


DAY = "(mon|tue|wed|thu|fri|sat|sun)"
HOUR = "(2[0-4]|1?[0-9])"
PRICE = r"[0-9]{1,9}(\.[0-9]{1,6})?"
NAME = "[A-Za-z0-9][A-Za-z0-9_.+-]*"
ENTRY = f"({DAY}(-{DAY})? )?{HOUR}-{HOUR} [0-9]{{1,6}}-[0-9]{{1,6}}"
SCHEDULE = _regex_text_format(
    f"({ENTRY}(, (?!$)|$))*", '"mon-fri 8-20 2-10, 0-24 0-5": days, hours, least and most nodes'
)
PRICES = _regex_text_format(f"({HOUR}-{HOUR}={PRICE}( (?!$)|$))*", 'hours and prices, separated by blanks: "22-6=0.12"')
QUEUES = _regex_text_format(f"({NAME}( (?!$)|$))*", "queues, separated by blanks")
HOST_GROUPS = _regex_text_format(f"(@{NAME}( (?!$)|$))*", "host groups, separated by blanks")
PROVIDER = _regex_text_format(f"({NAME})?", "the NAME of a [provider.NAME], or empty")
FILE = _regex_text_format("(/[ -~]*)?", "an absolute path in printable ASCII, or empty")
HOST_PREFIX = _regex_text_format("([a-z][a-z0-9-]{0,40})?", "small letters, digits and -, a letter first, or empty")
WORD = _regex_text_format("[!-~]*", "printable ASCII without blanks, or empty")
WORDS = _regex_text_format("([!-~]+( (?!$)|$))*", "printable ASCII, separated by blanks")
# all users can read gridbridge.toml, so a URL must not contain a password
URL = _regex_text_format("(https?://[^@ ]+)?", "https://HOST/ without a name and password, or empty")
HOST_KEY = _regex_text_format("((ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+={0,2})?", '"ssh-ed25519 AAAA...", or empty')
PLACE = _regex_text_format("([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)?", "HOST or HOST:PORT, or empty")
HOST_NAME = _regex_text_format(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", "a host name of small letters, digits, - and ."
)
MAC = _regex_text_format("([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5})?", '"52:54:00:12:34:56", or empty')
ARGUMENTS = _regex_text_format("[ -~]+", 'a table of texts: { ex_tenant_name = "hpc" }')
PEOPLE = _regex_text_format("([a-z_][a-z0-9_-]*( (?!$)|$))*", "names of accounts, separated by blanks")
STEPS = _regex_text_format(
    "((names|people|mounts|execd)( (?!$)|$))*", 'some of "names people mounts execd", separated by blanks'
)


class ProviderKind(StrEnum):
    COMMAND = "command"
    EC2 = "ec2"
    LIBCLOUD = "libcloud"
    POWER = "power"


class PowerSwitchMethod(StrEnum):
    IPMI = "ipmi"
    WAKE = "wake"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSection:
    """Section [balance]: when nodes are added to the home cluster, and when nodes are removed."""

    policy: BalancePolicyName = setting(BalancePolicyName.DEMAND, "the policy by which nodes are added and removed")
    queue: str = setting("all.q", "the queue whose slots the balancer counts", form=OBJECT_NAME)
    max_nodes: int = setting(0, "the most nodes, master included; 0: no node is added or removed", "nodes", 0, 100000)
    min_nodes: int = setting(1, "the least nodes of the cluster, master included", "nodes", 0, 100000)
    add_nodes_per_iteration: int = setting(
        1, "policy starcluster: the most nodes added by one round", "nodes", 1, 10000
    )
    job_wait_time_s: float = setting(
        900.0, "policy starcluster: how long a job waits before nodes are added", "s", 0, 2592000
    )
    kill_after_min: int = setting(
        45, "policy starcluster: the first minute of a paid hour at which an idle node is removed", "min", 0, 59
    )
    stabilization_s: float = setting(180.0, "policy starcluster: the pause after a change of nodes", "s", 0, 86400)
    apply: bool = setting(False, "whether rounds add and remove nodes; false: rounds only print their decisions")
    interval_s: float = setting(60.0, "the pause between two rounds of gridbridge-balance --loop", "s", 5, 86400)
    node_prefix: str = setting("", "the start of new nodes' names; empty: the cluster's name and -n", form=HOST_PREFIX)
    join_timeout_s: float = setting(
        900.0, "how long a booted node may take to join the cell before its removal", "s", 10, 86400
    )
    silent_timeout_s: float = setting(
        900.0, "how long an idle node's execution daemon may be silent before the node is removed", "s", 30, 604800
    )
    protect_after: int = setting(3, "how many nodes of a pool must fail in a row to pause the pool", "nodes", 1, 1000)
    protected_s: float = setting(3600.0, "how long a pool whose nodes failed is paused", "s", 0, 604800)
    kill_master: bool = setting(False, "whether --kill-master may end the machine of the master host")
    fill_first: bool = setting(False, "whether tasks fill one node after another, so that other nodes become idle")

    def node_name_prefix(self, cluster: str) -> str:
        return self.node_prefix or f"{cluster}-n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPolicySection:
    wait_s: float = setting(0.0, "how long a task must wait for free slots before nodes are added", "s", 0, 2592000)
    target_wait_s: float = setting(
        0.0,
        "no node is added if present slots can finish all tasks within this time plus a node's boot; 0: no target",
        "s",
        0,
        2592000,
    )
    add_at_once: int = setting(0, "the most nodes that one round adds; 0: no limit", "nodes", 0, 10000)
    max_booting: int = setting(0, "the most nodes that boot at once; 0: no limit", "nodes", 0, 10000)
    boot_timeout_s: float = setting(
        1800.0, "the boot time after which a node no longer counts as capacity", "s", 10, 86400
    )
    retry_s: float = setting(600.0, "how long a pool without capacity gets no request for nodes", "s", 0, 86400)
    idle_timeout_s: float = setting(300.0, "the idle time after which a node is removed", "s", 0, 2592000)
    stuck_after_s: float = setting(
        900.0,
        "no node is added for a job that waits this long although slots are free; 0: no limit",
        "s",
        0,
        2592000,
    )
    billing_s: float = setting(1.0, "the unit of paid time, such as 3600 for whole hours", "s", 1, 86400)
    billing_window: float = setting(0.25, "the last part of each paid unit, in which idle nodes are removed", "", 0, 1)
    spare_slots: int = setting(0, "how many slots stay free for new jobs", "slots", 0, 1000000)
    spare_nodes: int = setting(0, "how many nodes stay idle for new jobs", "nodes", 0, 100000)
    budget_hour: float = setting(0.0, "the most that the nodes of all pools may cost an hour; 0: no limit", "", 0, 1e9)
    budget_month: float = setting(0.0, "the most that the nodes of all pools may cost a month; 0: no limit", "", 0, 1e9)
    schedule: str = setting("", "the least and most nodes by days and hours; the first match applies", form=SCHEDULE)
    grow_pause_s: float = setting(0.0, "the pause between a change of nodes and the next addition", "s", 0, 86400)
    shrink_pause_s: float = setting(180.0, "the pause between a change of nodes and the next removal", "s", 0, 86400)


class StandbyNodeSelection(StrEnum):
    """The hosts that a squeeze may switch off."""

    IDLE = "idle"
    RERUNNABLE = "rerunnable"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqueezeSection:
    """Section [squeeze]: when the site's hosts are switched off, and when they are woken."""

    enabled: bool = setting(False, "whether the balancer switches hosts off and wakes hosts")
    minimal_reserve: float = setting(
        1.0, "hosts are woken when fewer standard requests per working host can start at once", "", 0, 100000
    )
    target_reserve: float = setting(
        2.0,
        "hosts are switched off only if this many standard requests per working host can still start",
        "",
        0,
        100000,
    )
    on_each: bool = setting(False, "whether each working host must have its own reserve; false: all hosts together")
    standard_slots: int = setting(1, "the slots of a standard request, the unit of the reserve", "slots", 1, 100000)
    standard_request: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "the consumables of a standard request, besides slots", form=ASKED
    )
    restriction: StandbyNodeSelection = setting(
        StandbyNodeSelection.IDLE,
        "which hosts may be switched off: idle ones, also those with rerunnable tasks, or all hosts",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolSection:
    """Section [pool.NAME]: provider, size, price and limits of nodes of one kind."""

    provider: str = setting("", "the provider of the pool's nodes; empty: no provider yet", form=PROVIDER)
    image: str = setting("", "the image of the pool's nodes; empty: the provider's image", form=WORD)
    size: str = setting("", "the machine size of the pool's nodes; empty: the provider's size", form=WORD)
    host_key: str = setting("", "the image's ssh host key; empty: the provider tells each node's key", form=HOST_KEY)
    slots: int = setting(1, "a node's slots in each queue that is not best-effort", "slots", 1, 100000)
    resources: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "consumables and other resources of a node, such as arch", form=ASKED
    )
    hostgroups: str = setting("@allhosts", "the host groups that a new node joins", form=HOST_GROUPS)
    queues: str = setting("", "the queues that a new node joins; empty: the queues of the host groups", form=QUEUES)
    priority: int = setting(0, "the pool's priority; the pool with the highest number grows first", "", -1000, 1000)
    price: float = setting(0.0, "the price of a node for an hour", "", 0, 1e9)
    prices: str = setting("", "the price of a node at some hours of the day", form=PRICES)
    limit: int = setting(0, "the most nodes of the pool; 0: max_nodes", "nodes", 0, 100000)
    quota: int = setting(0, "the most slots that the provider allows; 0: no limit", "slots", 0, 10000000)
    spot: bool = setting(False, "whether the provider may take nodes back")
    boot_s: float = setting(300.0, "the time from a node's creation until the node runs tasks", "s", 0, 86400)
    span: int = setting(0, "the most nodes that one parallel task can use; 0: all nodes", "nodes", 0, 100000)
    spans: int = setting(0, "the most groups of span nodes in the pool; 0: no limit", "groups", 0, 100000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBootstrapSection:
    """Section [bootstrap]: the steps that prepare a new machine by ssh."""

    steps: str = setting("", "the set-up steps of a new machine, done by ssh; empty: no step", form=STEPS)
    user: str = setting("", "the account for ssh on new machines, with sudo rights", form=WORD)
    key: str = setting("", "the file with the private ssh key for new machines", form=FILE)
    people: str = setting("", "the local accounts that the step people copies to new machines", form=PEOPLE)
    mounts: str = setting("", "the file of lines that the step mounts adds to a new machine's fstab(5)", form=FILE)
    timeout_s: float = setting(120.0, "the longest time of a set-up step on a new machine", "s", 1, 3600)
    export: str = setting("", "the program that root runs on this host with the name of each new node", form=FILE)
    unexport: str = setting("", "the program that root runs on this host with the name of each removed node", form=FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProviderSection:
    """Section [provider.NAME]: how a provider makes machines or switches hosts; keys depend on `kind`."""

    kind: ProviderKind = setting(ProviderKind.COMMAND, "what the provider uses: a program, a cloud, or power switches")
    timeout_s: float = setting(60.0, "how long the provider may take to answer", "s", 1, 3600)
    program: str = setting("", "kinds command and power: the program that makes machines or switches hosts", form=FILE)
    region: str = setting("", "kinds ec2 and libcloud: the cloud region of the machines", form=WORD)
    endpoint: str = setting("", "kind ec2: the URL of another cloud that has EC2's interface", form=URL)
    credentials: str = setting(
        "", "kinds ec2 and libcloud: the file of keys, readable only for the balancer's account", form=FILE
    )
    image: str = setting("", "kinds ec2 and libcloud: the default image of machines", form=WORD)
    size: str = setting("", "kinds ec2 and libcloud: the default size of machines", form=WORD)
    key_name: str = setting("", "kinds ec2 and libcloud: the name of the site's ssh key in the cloud", form=WORD)
    user_data: str = setting("", "kind ec2: the file that new machines get as user data", form=FILE)
    subnet: str = setting("", "kind ec2: the network of the machines", form=WORD)
    security_groups: str = setting("", "kind ec2: the ids of the machines' security groups", form=WORDS)
    driver: str = setting("", "kind libcloud: the name of the libcloud driver", form=WORD)
    arguments: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "kind libcloud: further arguments of the libcloud driver", form=ARGUMENTS
    )
    way: PowerSwitchMethod = setting(PowerSwitchMethod.IPMI, "kind power: how hosts are switched on and off")
    broadcast: str = setting("", "kind power, for way = wake: the address to which the wake packet is sent", form=PLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPowerSection:
    provider: str = setting("", "the provider of kind power that switches the host", form=PROVIDER)
    bmc: str = setting("", "for way = ipmi: the address of the host's management controller", form=PLACE)
    user: str = setting("", "for way = ipmi: the account on the management controller", form=WORD)
    password_file: str = setting(
        "", "for way = ipmi: the controller's password file, readable only for the balancer's account", form=FILE
    )
    mac: str = setting("", "for way = wake: the hardware address of the host's network card", form=MAC)
