"""Sections of gridbridge.toml that configure an elastic cluster."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.elastic.balance_plan import BalancePolicyName
from gridbridge.model.key_settings import ASKED, OBJECT_NAME, ConfigTextFormat, QueueDefaultRequests, setting

DAY = "(mon|tue|wed|thu|fri|sat|sun)"
HOUR = "(2[0-4]|1?[0-9])"
PRICE = r"[0-9]{1,9}(\.[0-9]{1,6})?"
NAME = "[A-Za-z0-9][A-Za-z0-9_.+-]*"
ENTRY = f"({DAY}(-{DAY})? )?{HOUR}-{HOUR} [0-9]{{1,6}}-[0-9]{{1,6}}"
SCHEDULE = ConfigTextFormat(
    holds=re.compile(f"({ENTRY}(, (?!$)|$))*").fullmatch,
    right='"mon-fri 8-20 2-10, 0-24 0-5": days, hours, and the least and most nodes then',
)
PRICES = ConfigTextFormat(
    holds=re.compile(f"({HOUR}-{HOUR}={PRICE}( (?!$)|$))*").fullmatch,
    right='hours and the price then, with blanks between: "22-6=0.12"',
)
QUEUES = ConfigTextFormat(holds=re.compile(f"({NAME}( (?!$)|$))*").fullmatch, right="queues, with blanks between")
HOST_GROUPS = ConfigTextFormat(
    holds=re.compile(f"(@{NAME}( (?!$)|$))*").fullmatch, right="host groups, with blanks between"
)
PROVIDER = ConfigTextFormat(holds=re.compile(f"({NAME})?").fullmatch, right="the NAME of a [provider.NAME], or empty")
FILE = ConfigTextFormat(holds=re.compile("(/[ -~]*)?").fullmatch, right="an absolute path in printable ASCII, or empty")
HOST_PREFIX = ConfigTextFormat(
    holds=re.compile("([a-z][a-z0-9-]{0,40})?").fullmatch, right="small letters, digits and -, a letter first, or empty"
)
WORD = ConfigTextFormat(holds=re.compile("[!-~]*").fullmatch, right="printable ASCII without blanks, or empty")
WORDS = ConfigTextFormat(
    holds=re.compile("([!-~]+( (?!$)|$))*").fullmatch, right="printable ASCII, with blanks between"
)
URL = ConfigTextFormat(  # the file is public, so a URL must not contain a password
    holds=re.compile("(https?://[^@ ]+)?", re.ASCII).fullmatch,
    right="https://HOST/ without a name and password, or empty",
)
HOST_KEY = ConfigTextFormat(
    holds=re.compile("((ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+={0,2})?").fullmatch,
    right='"ssh-ed25519 AAAA...", or empty',
)
PLACE = ConfigTextFormat(
    holds=re.compile("([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)?").fullmatch, right="HOST or HOST:PORT, or empty"
)
HOST_NAME = ConfigTextFormat(
    holds=re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*").fullmatch,
    right="the name of a host: small letters, digits, - and .",
)
MAC = ConfigTextFormat(
    holds=re.compile("([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5})?").fullmatch, right='"52:54:00:12:34:56", or empty'
)
ARGUMENTS = ConfigTextFormat(
    holds=re.compile("[ -~]+").fullmatch, right='texts by their names: { ex_tenant_name = "hpc" }'
)


PEOPLE = ConfigTextFormat(
    holds=re.compile("([a-z_][a-z0-9_-]*( (?!$)|$))*").fullmatch, right="names of accounts, with blanks between"
)
STEPS = ConfigTextFormat(
    holds=re.compile("((names|people|mounts|execd)( (?!$)|$))*").fullmatch,
    right='some of "names people mounts execd", with blanks between',
)


class ProviderKind(StrEnum):
    """How machines are created, or hosts powered: the kind of a provider."""

    COMMAND = "command"
    EC2 = "ec2"
    LIBCLOUD = "libcloud"
    POWER = "power"


class PowerSwitchMethod(StrEnum):
    """How a host of the site's own is powered on and off."""

    IPMI = "ipmi"
    WAKE = "wake"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSection:
    """Section [balance]: when nodes of the site's own cluster are added and removed."""

    policy: BalancePolicyName = setting(BalancePolicyName.DEMAND, "the policy that decides")
    queue: str = setting("all.q", "the queue whose slots count", form=OBJECT_NAME)
    max_nodes: int = setting(
        0, "the most nodes of the cluster, with the master; 0: no node is added or removed", "nodes", 0, 100000
    )
    min_nodes: int = setting(1, "the least nodes of the cluster, with the master", "nodes", 0, 100000)
    add_nodes_per_iteration: int = setting(1, "of starcluster: the most nodes that one round adds", "nodes", 1, 10000)
    job_wait_time_s: float = setting(
        900.0, "of starcluster: how long a job waits before nodes are added", "s", 0, 2592000
    )
    kill_after_min: int = setting(
        45, "of starcluster: the minute of its hour from which on an idle node is removed", "min", 0, 59
    )
    stabilization_s: float = setting(180.0, "of starcluster: the pause after a change", "s", 0, 86400)
    apply: bool = setting(False, "whether nodes are added and removed; false: rounds only say what they would do")
    interval_s: float = setting(60.0, "the pause between two rounds of --loop", "s", 5, 86400)
    node_prefix: str = setting(
        "", "the beginning of new nodes' names; empty: the cluster's name and -n", form=HOST_PREFIX
    )
    join_timeout_s: float = setting(
        900.0, "a node that has not joined the cell this long after its boot is removed", "s", 10, 86400
    )
    silent_timeout_s: float = setting(
        900.0, "an idle node is removed when its execution daemon is silent for so long", "s", 30, 604800
    )
    protect_after: int = setting(
        3, "how many nodes of a pool in a row fail before the pool is left out", "nodes", 1, 1000
    )
    protected_s: float = setting(3600.0, "how long such a pool is left out", "s", 0, 604800)
    kill_master: bool = setting(False, "whether --kill-master may end the master's machine, too")
    fill_first: bool = setting(False, "whether nodes are filled one after the other, so that others empty")

    def prefix_at(self, cluster: str) -> str:
        """Return the prefix of the names of a cluster's new nodes."""
        return self.node_prefix or f"{cluster}-n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPolicySection:
    """The further settings of balancer policy demand."""

    wait_s: float = setting(0.0, "how long a task could have started before nodes are added", "s", 0, 2592000)
    target_wait_s: float = setting(
        0.0,
        "no node is added if present slots finish the waiting tasks in this "
        "time and a boot; 0: nodes are added all the same",
        "s",
        0,
        2592000,
    )
    add_at_once: int = setting(0, "the most nodes that one round adds; 0: no limit", "nodes", 0, 10000)
    max_booting: int = setting(0, "the most nodes that are on their way; 0: no limit", "nodes", 0, 10000)
    boot_timeout_s: float = setting(
        1800.0, "a node that is on its way for longer does not count any more", "s", 10, 86400
    )
    retry_s: float = setting(600.0, "how long a pool without capacity is left out", "s", 0, 86400)
    idle_timeout_s: float = setting(300.0, "how long a node is idle before it is removed", "s", 0, 2592000)
    stuck_after_s: float = setting(
        900.0,
        "a job that does not start for so long, though there is room, is no demand; 0: it stays demand",
        "s",
        0,
        2592000,
    )
    billing_s: float = setting(1.0, "the unit of time that is paid for, such as 3600 for begun hours", "s", 1, 86400)
    billing_window: float = setting(0.25, "the last part of the paid time, in which an idle node is removed", "", 0, 1)
    spare_slots: int = setting(0, "slots that stay free for new jobs", "slots", 0, 1000000)
    spare_nodes: int = setting(0, "nodes that stay idle for new jobs", "nodes", 0, 100000)
    budget_hour: float = setting(0.0, "the most that all nodes of pools cost an hour; 0: no limit", "", 0, 1e9)
    budget_month: float = setting(0.0, "the most that all nodes of pools cost a month; 0: no limit", "", 0, 1e9)
    schedule: str = setting(
        "", "the least and most nodes by days and hours; the first entry that fits holds", form=SCHEDULE
    )
    grow_pause_s: float = setting(0.0, "the pause after a change before nodes are added", "s", 0, 86400)
    shrink_pause_s: float = setting(180.0, "the pause after a change before nodes are removed", "s", 0, 86400)


class StandbyNodeSelection(StrEnum):
    """Which nodes a squeeze may put on standby."""

    IDLE = "idle"
    RERUNNABLE = "rerunnable"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqueezeSection:
    """When nodes are put on standby instead of removed, and when they are woken."""

    enabled: bool = setting(False, "whether hosts are put on standby and woken")
    minimal_reserve: float = setting(
        1.0, "free standard requests for each working host, below which hosts are woken", "", 0, 100000
    )
    target_reserve: float = setting(
        2.0, "free standard requests for each working host that remain when hosts rest", "", 0, 100000
    )
    on_each: bool = setting(False, "whether each host has the reserve itself, not all hosts together")
    standard_slots: int = setting(1, "the slots of a standard request", "slots", 1, 100000)
    standard_request: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "what else a standard request asks for on one host: amounts of consumables", form=ASKED
    )
    restriction: StandbyNodeSelection = setting(
        StandbyNodeSelection.IDLE,
        "hosts that may rest: idle ones, also those of tasks that can run again elsewhere, or all",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolSection:
    """A pool: the source, size, price and limits of nodes of one kind."""

    provider: str = setting("", "the provider of its nodes; empty: none yet", form=PROVIDER)
    image: str = setting("", "the image of its nodes; empty: the provider's", form=WORD)
    size: str = setting("", "the size of its nodes; empty: the provider's", form=WORD)
    host_key: str = setting("", "the host key of an image that has its own; empty: it is learnt", form=HOST_KEY)
    slots: int = setting(1, "the slots of a node in each of its queues, but best-effort ones", "slots", 1, 100000)
    resources: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "what else a node has: consumables, and values such as arch", form=ASKED
    )
    hostgroups: str = setting("@allhosts", "the host groups that it joins", form=HOST_GROUPS)
    queues: str = setting("", "the queues that it joins; empty: those of its host groups", form=QUEUES)
    priority: int = setting(0, "pools with the highest priority are taken first", "", -1000, 1000)
    price: float = setting(0.0, "what a node costs an hour", "", 0, 1e9)
    prices: str = setting("", "what a node costs at some hours of the day", form=PRICES)
    limit: int = setting(0, "the most nodes of the pool; 0: as many as max_nodes", "nodes", 0, 100000)
    quota: int = setting(0, "the most slots that its provider gives; 0: no limit", "slots", 0, 10000000)
    spot: bool = setting(False, "whether the provider may take its nodes back")
    boot_s: float = setting(300.0, "how long a node takes until it runs tasks", "s", 0, 86400)
    span: int = setting(
        0, "the most nodes that stand close enough to share a parallel task; 0: all", "nodes", 0, 100000
    )
    spans: int = setting(0, "the most such groups of nodes; 0: no limit", "groups", 0, 100000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBootstrapSection:
    """The steps that prepare a new machine by ssh, beyond what its image does."""

    steps: str = setting(
        "", "the steps that are done on a new machine by ssh; empty: none, its image does it all", form=STEPS
    )
    user: str = setting("", "the login on new machines, which may sudo", form=WORD)
    key: str = setting("", "the file of that login's private key", form=FILE)
    people: str = setting("", "the accounts that step people makes there, as they are here", form=PEOPLE)
    mounts: str = setting("", "the file of lines that step mounts adds to fstab(5) there", form=FILE)
    timeout_s: float = setting(120.0, "how long each step may take", "s", 1, 3600)
    export: str = setting("", "the program that root runs here with the name of each new host", form=FILE)
    unexport: str = setting("", "the program that root runs here with the name of each host that left", form=FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProviderSection:
    """A provider of machines; each kind uses its own keys."""

    kind: ProviderKind = setting(ProviderKind.COMMAND, "how the provider is asked")
    timeout_s: float = setting(60.0, "how long each answer may take", "s", 1, 3600)
    program: str = setting("", "of command and power: the program that is asked", form=FILE)
    region: str = setting("", "of ec2 and libcloud: where its machines are", form=WORD)
    endpoint: str = setting("", "of ec2: the address of a cloud that speaks as EC2 does", form=URL)
    credentials: str = setting(
        "", "of ec2 and libcloud: the file of keys, readable for the balancer's account alone", form=FILE
    )
    image: str = setting("", "of ec2 and libcloud: the image of machines", form=WORD)
    size: str = setting("", "of ec2 and libcloud: the size of machines", form=WORD)
    key_name: str = setting("", "of ec2 and libcloud: the cloud's name of our ssh key", form=WORD)
    user_data: str = setting("", "of ec2: the file that new machines get as user data", form=FILE)
    subnet: str = setting("", "of ec2: the network of its machines", form=WORD)
    security_groups: str = setting("", "of ec2: the ids of their security groups", form=WORDS)
    driver: str = setting("", "of libcloud: the name of its driver", form=WORD)
    arguments: QueueDefaultRequests = setting(
        QueueDefaultRequests(), "of libcloud: further arguments of its driver", form=ARGUMENTS
    )
    way: PowerSwitchMethod = setting(PowerSwitchMethod.IPMI, "of power: how hosts are switched on and off")
    broadcast: str = setting("", "of power by wake: the address to which the packet is sent", form=PLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredHostSection:
    """How a host of the site's own is powered on and off."""

    provider: str = setting("", "its section [provider.NAME] of kind power", form=PROVIDER)
    bmc: str = setting("", "by ipmi: the address of its management controller", form=PLACE)
    user: str = setting("", "by ipmi: the account on that controller", form=WORD)
    password_file: str = setting(
        "", "by ipmi: the file of its password, readable for the balancer's account alone", form=FILE
    )
    mac: str = setting("", "by wake: the hardware address of its network card", form=MAC)
