"""A configuration is accepted as a whole, or refused with all of its problems."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from tests.config.refusals import HOME, PORTS, SITE, problems_of

CLUSTERS = f"[cluster.alpha]\n{PORTS}[cluster.beta]\n{PORTS}"
QUEUE = '[queue.transfer-beta]\ncluster = "beta"\npending_limit = 2\nslots = 10\n'
GOOD = f"{HOME}[cluster.beta]\n{PORTS}{QUEUE}"

KEYS_OF_THE_SITE = (
    "the keys are cluster, service_account, state, min_uid, transfer_host, keep_decisions_h, queue_order, log_level"
)
KEYS_OF_A_QUEUE = (
    "the keys are cluster, pending_limit, slots, asks, oar_queue, oar_type, remote_usage, identity,"
    " staged, stage_in, stage_out, recall_wait_s, recall_limit, recall_unreachable_s"
)
A_CLUSTER_NAME = "at most 32 lower-case letters, digits and -, a letter first"
A_STATE_URL = "sqlite:////PATH, or postgresql://USER@HOST/NAME with the password in ~/.pgpass"
SECTIONS = (
    "the sections are [site], [cluster.NAME], [queue.NAME], [map.CLUSTER.KIND.NAME], [poller],"
    " [breaker], [retention], [runner], [metascheduler], [campaigns.NAME], [nikita],"
    " [failures], [finalize], [notifications], [balance], [demand], [squeeze], [bootstrap],"
    " [pool.NAME], [provider.NAME], [power.NAME], [rebalance] and [storage.NAME]"
)
A_PLACE = "HOST or HOST:PORT; empty if the programs run on this host"
ACCOUNTS = 'pairs of accounts such as { alice = "al_there" }; no root, and each account once'
BY_SSH = 'ssh = "far"\n'
ASKS = 'resources with their names at home, such as { mem_free = "64G" }'
NO_HOME = "a transfer queue needs a Grid Engine home, and"
A_PORT = "a whole number, 1 to 65535"


def parsed(text: str) -> Policy:
    return configuration_file.parse_configuration("FILE", text.encode())


def test_missing_keys_have_their_defaults() -> None:
    assert parsed(GOOD) == Policy(
        site=SiteSection(cluster="alpha"),
        clusters={
            "alpha": ClusterSection(qmaster_port=6444, execd_port=6445),
            "beta": ClusterSection(qmaster_port=6444, execd_port=6445),
        },
        queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=2, slots=10)},
        poller=PollerSection(),
    )


@pytest.mark.parametrize(("home", "kind"), [('[cluster.alpha]\nkind = "oar"\n', ClusterKind.OAR), ("", None)])
def test_a_site_without_queues_may_have_a_home_of_oar_or_none(home: str, kind: ClusterKind | None) -> None:
    policy = parsed(f"{SITE}{home}[cluster.beta]\n{PORTS}")

    assert (policy.home_cluster_section.kind if policy.home_cluster_section else None) == kind
    assert policy.why_no_transfer_queues
    assert not policy.is_single_user_site


def test_remote_account_names_are_read_from_users() -> None:
    by_ssh = 'ssh = "far:2222"\n[cluster.beta.users]\nalice = "al"\n'
    beta = parsed(GOOD.replace(QUEUE, by_ssh + QUEUE)).clusters["beta"]

    assert (beta.ssh, beta.users) == ("far:2222", {"alice": "al"})


def test_a_whole_number_is_accepted_for_a_float_key() -> None:
    interval_s = parsed(GOOD + "[poller]\ninterval_s = 6\n").poller.interval_s

    assert (float, 6.0) == (type(interval_s), interval_s)


def with_keys(section: str, keys: str) -> str:
    head = f"[{section}]\n"
    return GOOD.replace(head, f"{head}{keys}\n") if head in GOOD else f"{GOOD}{head}{keys}\n"


@pytest.mark.parametrize(
    ("section", "keys", "problem"),
    [
        ("poller", 'stale_s = "30"', "wrong type; expected a number, 5 to 86400 s"),
        ("cluster.beta", "spool_shared = 1", "wrong type; expected true or false"),
        ("poller", "interval_s = 4.9", "out of range; expected a number, 5 to 3600 s"),
        ("retention", "closed_h = inf", "out of range; expected a number, 0 to 8760 h"),
        ("cluster.beta", 'remote_spool_dir = "spool"', "wrong form; expected an absolute path in printable ASCII"),
        ("site", 'state = "sqlite:///state.db"', f"wrong form; expected {A_STATE_URL}"),
        ("site", 'service_account = "root"', "wrong form; expected the name of an account other than root"),
        ("site", 'log_level = "loud"', 'unknown word; expected "debug" or "info" or "warning" or "error"'),
        ("cluster.beta", 'kind = "slurm"', 'unknown word; expected "gridengine" or "oar" or "embedded"'),
        ("cluster.beta", 'ssh = "-oProxyCommand=x"', f"wrong form; expected {A_PLACE}"),
        ("cluster.beta", 'ssh = "far"\nusers = ["alice"]', f"wrong type; expected {ACCOUNTS}"),
        (
            "cluster.beta",
            'users = { alice = "al" }',
            "without ssh; expected other account names only at a cluster by ssh",
        ),
        ("cluster.beta", 'claim = "file"', "without a shared spool; expected spool_shared = true"),
        ("cluster.beta", 'ssh = "far"\nclaim = "file"', "without a shared spool; expected grant"),
        ("cluster.beta", 'claim = "grant"', "without ssh; expected ssh, which carries the grants"),
        ("cluster.beta", 'spool_shared = true\nclaim = "grant"', "without ssh; expected file"),
        (
            "cluster.alpha",
            'claim = "file"',
            "the local cluster; expected none, because this cluster is always reachable",
        ),
        ("cluster.alpha", 'ssh = "far"', "the local cluster; expected none, because its commands run here"),
        (
            "queue.transfer-beta",
            'staged = true\nstage_out = "x"',
            "without ssh; expected empty, because files are staged only by ssh",
        ),
        (
            "cluster.beta",
            'folder = "/x"',
            "with kind gridengine; expected no folder, which only embedded clusters have",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_its_section_and_key(section: str, keys: str, problem: str) -> None:
    assert problems_of(with_keys(section, keys)) == [f"[{section}] {keys.splitlines()[-1]}: {problem}"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (GOOD + "[poller]\nintervall_s = 5\n", "[poller] intervall_s: unknown key; interval_s is the nearest"),
        (
            GOOD.replace("pending_limit", "pending_limt"),
            "[queue.transfer-beta] pending_limt: unknown key; pending_limit is the nearest",
        ),
        (GOOD + "zzz = 5\n", f"[queue.transfer-beta] zzz: unknown key; {KEYS_OF_A_QUEUE}"),
        (GOOD + '"two\\nlines" = 5\n', f'[queue.transfer-beta] "two\\nlines": unknown key; {KEYS_OF_A_QUEUE}'),
        (GOOD + "[clusters.gamma]\n", "[clusters]: unknown section; [cluster.NAME] is the nearest"),
        (
            "interval_s = 5\n" + GOOD,
            "interval_s: a key above every section; expected below [poller] or [runner] or [nikita] or [balance]",
        ),
        ("zzz = 5\n" + GOOD, "zzz: a key above every section; expected below a section that has it"),
        ('cluster = "alpha"\n' + CLUSTERS, "cluster: a key above every section; expected below [site]"),
        (
            SITE + CLUSTERS.replace("[cluster.beta]\n", '[cluster]\nkind = "oar"\nssh = "b"\n'),
            "[cluster] kind, ssh, qmaster_port, execd_port: below a section without a name;"
            " expected below [cluster.NAME]",
        ),
        ("pool = 5\n" + SITE + CLUSTERS, "[pool]: not a section; expected keys below [pool.NAME]"),
        ("poller = 5\n" + GOOD, "[poller]: not a section; expected keys below [poller]"),
        (
            SITE + CLUSTERS + '[queue]\ncluster = "beta"\n',
            "[queue] cluster: below a section without a name; expected below [queue.NAME]",
        ),
        (GOOD + "[cluster.Gamma]\n" + PORTS, f"[cluster.Gamma]: wrong name; expected {A_CLUSTER_NAME}"),
        (
            GOOD + QUEUE.replace("transfer-beta", '"a b"'),
            '[queue."a b"]: wrong name; expected letters, digits, _ . + and -, a letter or digit first',
        ),
        (CLUSTERS, f"[site] cluster: missing; expected {A_CLUSTER_NAME}"),
        (
            GOOD.replace("slots = 10\n", ""),
            "[queue.transfer-beta] slots: missing; expected a whole number, 1 to 9999999 slots",
        ),
        (
            GOOD.replace("slots = 10", "slots = true"),
            "[queue.transfer-beta] slots = true: wrong type; expected a whole number, 1 to 9999999 slots",
        ),
        (
            GOOD.replace("slots = 10", "slots = 10.0"),
            "[queue.transfer-beta] slots = 10.0: wrong type; expected a whole number, 1 to 9999999 slots",
        ),
        (
            GOOD.replace(QUEUE, "root = 2024-01-01\n" + QUEUE),
            '[cluster.beta] root = "2024-01-01": wrong type; expected an absolute path in printable ASCII',
        ),
        (
            GOOD + "[poller]\nquery_share = nan\n",
            "[poller] query_share = nan: out of range; expected a number, 0.001 to 1",
        ),
        (
            GOOD + "[poller]\ninterval_s = 60\n",
            "[poller] stale_s = 30.0: queues would close between two polls; expected above 60 s",
        ),
        (
            GOOD.replace(CLUSTERS, 'state = "postgresql://me:hush@db/grid"\n' + CLUSTERS),
            f'[site] state = "postgresql://***": wrong form; expected {A_STATE_URL}',
        ),
        (
            GOOD.replace(QUEUE, f'{BY_SSH}users = {{ alice = "al", bob = "root" }}\n' + QUEUE),
            f'[cluster.beta] users.bob = "root": wrong form; expected {ACCOUNTS}',
        ),
        (
            GOOD.replace(QUEUE, f'{BY_SSH}users = {{ alice = "al", bob = "al" }}\n' + QUEUE),
            f'[cluster.beta] users.alice = "al": the account of several people; expected {ACCOUNTS}',
        ),
        (GOOD.replace('"alpha"', '"gamma"'), f"[queue.transfer-beta]: {NO_HOME} there is no [cluster.gamma]"),
        (
            GOOD.replace('"beta"', '"gamma"'),
            '[queue.transfer-beta] cluster = "gamma": undefined; expected a remote cluster (beta)',
        ),
        (
            GOOD.replace('"beta"', '"alpha"'),
            '[queue.transfer-beta] cluster = "alpha": the local cluster; expected a remote cluster (beta)',
        ),
        (SITE + QUEUE, f"[queue.transfer-beta]: {NO_HOME} there is no [cluster.alpha]"),
        (
            GOOD + 'asks = { "h rt" = "1", big = 1, mem = "" }\n',
            f'[queue.transfer-beta] asks."h rt" = "1": wrong form; expected {ASKS}',
        ),
        (
            f'{SITE}[cluster.alpha]\n{PORTS}[cluster.beta]\nkind = "oar"\n{QUEUE}'
            + 'asks = { h_rt = "60", mem = "1G" }\n',
            '[queue.transfer-beta] asks.mem = "1G": no rule; expected a rule [map.beta.resource.mem]',
        ),
        (GOOD.replace(PORTS, 'kind = "oar"\n', 1), f"[queue.transfer-beta]: {NO_HOME} alpha is of kind oar"),
        (
            GOOD.replace(PORTS, 'kind = "oar"\n', 1) + QUEUE.replace("beta]", "b]"),
            f"[queue.transfer-beta]: {NO_HOME} alpha is of kind oar",
        ),
        (
            SITE + '[cluster.beta]\nkind = "embedded"\nfolder = "/x"\n',
            '[cluster.beta] kind = "embedded": the local cluster is none;'
            " expected all clusters of a site embedded, or none",
        ),
        (
            GOOD + '[map.beta.resource.mem]\nto = "h_vmem"\n[map.beta.resource.h_vmem]\n',
            '[map.beta.resource.h_vmem] to = "h_vmem": mem gets the same name;'
            " expected another name, or one of the resources dropped",
        ),
    ],
)
def test_a_single_problem_has_a_line_with_its_remedy(content: str, problem: str) -> None:
    assert problems_of(content) == [problem]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            GOOD.replace("slots", "zzz") + "stagd = 5\n",
            [
                "[queue.transfer-beta] stagd: unknown key; staged is the nearest",
                f"[queue.transfer-beta] zzz: unknown key; {KEYS_OF_A_QUEUE}",
                "[queue.transfer-beta] slots: missing; expected a whole number, 1 to 9999999 slots",
            ],
            id="unknown keys come first",
        ),
        pytest.param(
            GOOD + "[zzz]\n[yyy]\n[balnce]\n",
            [
                f"[zzz]: unknown section; {SECTIONS}",
                "[yyy]: unknown section; the sections are named above",
                "[balnce]: unknown section; [balance] is the nearest",
            ],
            id="sections like no other",
        ),
        pytest.param(
            'cluster = "alpha"\n',
            [
                "cluster: a key above every section; expected below [site]",
                f"[site] cluster: missing; expected {A_CLUSTER_NAME}",
            ],
            id="a file without any section",
        ),
        pytest.param(
            SITE + f"[cluster.alpha]\n{PORTS}[cluster.beta]\nqmaster_port = 65536\n" + QUEUE,
            [
                "[cluster.beta] qmaster_port = 65536: out of range; expected a whole number, 0 to 65535",
                f"[cluster.beta] execd_port: missing; expected {A_PORT}",
            ],
            id="two problems in one section",
        ),
        pytest.param(
            GOOD.replace(CLUSTERS, 'published_dir = "/a"\nspool_dir = "/b"\n' + CLUSTERS),
            [
                f"[site] published_dir: unknown key; {KEYS_OF_THE_SITE}",
                f"[site] spool_dir: unknown key; {KEYS_OF_THE_SITE}",
            ],
            id="what hot programs would have to read",
        ),
        pytest.param(
            GOOD.replace(QUEUE, BY_SSH + 'spool_shared = true\npush = "qevent"\n' + QUEUE),
            [
                "[cluster.beta] spool_shared = true: with ssh;"
                " expected false, as users have other uids at this cluster",
                '[cluster.beta] push = "qevent": with ssh; expected none, as this cluster is queried at intervals',
            ],
            id="what does not go with ssh",
        ),
        pytest.param(
            GOOD
            + 'asks = { hostname = "n1", gpu = "1", mem = "much", h_rt = "60" }\n'
            + '[map.beta.resource.gpu]\nreject = "none"\n'
            + '[map.beta.resource.mem]\nunit = "M"\n',
            [
                '[queue.transfer-beta] asks.hostname = "n1": a host or queue at home;'
                " expected a resource of the remote cluster",
                '[queue.transfer-beta] asks.gpu = "1": dropped or rejected by its rule;'
                " expected a resource whose rule has no drop or reject",
                '[queue.transfer-beta] asks.mem = "much": impossible to convert:'
                " 'much' is no number, memory or time; expected an amount",
            ],
            id="a queue that asks for what its cluster does not get",
        ),
        pytest.param(
            GOOD + "[map.gamma.resource.h_rt]\n[map.alpha.pe.smp]\n",
            [
                "[map.gamma]: undefined; expected the name of a remote [cluster.NAME]",
                "[map.alpha]: the local cluster; expected the name of a remote [cluster.NAME]",
            ],
            id="mappings to what is no remote cluster",
        ),
        pytest.param(
            GOOD.replace(QUEUE, 'kind = "oar"\nroot = "/x"\npush = "oar"\n' + QUEUE),
            [
                '[cluster.beta] root = "/x": with kind oar; expected this key only for Grid Engine',
                "[cluster.beta] qmaster_port = 6444: with kind oar; expected this key only for Grid Engine",
                "[cluster.beta] execd_port = 6445: with kind oar; expected this key only for Grid Engine",
                '[cluster.beta] push = "oar": without ssh; expected none, because OAR reports ends only by ssh',
            ],
            id="an OAR server with a cell",
        ),
        pytest.param(
            GOOD.replace(QUEUE, 'kind = "embedded"\nssh = "x"\npush = "qevent"\n' + QUEUE),
            [
                "[cluster.beta] folder: missing; expected the absolute path of the cluster's folder",
                "[cluster.beta] qmaster_port = 6444: with kind embedded; expected no such key",
                "[cluster.beta] execd_port = 6445: with kind embedded; expected no such key",
                '[cluster.beta] ssh = "x": with kind embedded; expected no such key',
                '[cluster.beta] push = "qevent": with kind embedded;'
                " expected none, because jobs of an embedded cluster see the spool",
                '[cluster.beta] push = "qevent": with ssh; expected none, as this cluster is queried at intervals',
                '[cluster.beta] kind = "embedded": the local cluster is gridengine;'
                " expected all clusters of a site embedded, or none",
            ],
            id="an embedded cluster beside a cell",
        ),
        pytest.param(
            GOOD + '[map.beta.resource.mem]\nto = "/gpu"\nrelation = ">="\n',
            [
                '[map.beta.resource.mem] relation = ">=": not an OAR cluster;'
                " expected empty, because Grid Engine defines comparisons",
                '[map.beta.resource.mem] to = "/gpu": not an OAR cluster; expected letters, digits, _ . + and -,'
                " a letter or digit first; empty: the local name",
            ],
            id="rules for OAR to another cluster",
        ),
        pytest.param(
            GOOD + '[map.beta.resource.h_rt]\nunit = "min"\n' + '[map.beta.resource.time]\nto = "s_rt"\nunit = "h"\n',
            [
                '[map.beta.resource.h_rt] unit = "min": h_rt is in seconds at the cluster;'
                " expected s or h:m:s, or empty",
                '[map.beta.resource.time] unit = "h": s_rt is in seconds at the cluster; expected s or h:m:s, or empty',
            ],
            id="a time limit in hours",
        ),
        pytest.param(
            GOOD
            + 'oar_type = "besteffort"\noar_queue = "long"\n'
            + '[cluster.gamma]\nkind = "oar"\nssh = "gamma"\n'
            + '[queue.to-gamma]\ncluster = "gamma"\npending_limit = 1\nslots = 1\n'
            + 'oar_type = "besteffort idempotent"\noar_queue = "a b"\n'
            + '[map.gamma.pe.mpi]\nspread = "$fill_up"\n[map.gamma.pe.smp]\nspread = "0"\n'
            + '[map.beta.pe.mpi]\nspread = "fill_up"\n',
            [
                '[queue.to-gamma] oar_queue = "a b": wrong form;'
                " expected letters, digits, _ . + and -, a letter or digit first;"
                " empty: OAR's default",
                '[queue.to-gamma] oar_type = "besteffort idempotent": wrong form;'
                " expected OAR job types such as besteffort, with blanks between; not idempotent",
                '[map.gamma.pe.mpi] spread = "$fill_up": wrong form;'
                " expected pe_slots, round_robin, fill_up, or slots per node; empty for pe_slots",
                '[map.gamma.pe.smp] spread = "0": wrong form;'
                " expected pe_slots, round_robin, fill_up, or slots per node; empty for pe_slots",
                '[map.beta.pe.mpi] spread = "fill_up": not an OAR cluster;'
                " expected empty, because the remote allocation_rule applies",
                '[queue.transfer-beta] oar_queue = "long": the cluster is not OAR; expected empty',
                '[queue.transfer-beta] oar_type = "besteffort": the cluster is not OAR; expected empty',
            ],
            id="what only queues and clusters of OAR have",
        ),
        pytest.param(
            GOOD
            + '[cluster.gamma]\nkind = "oar"\nssh = "gamma"\n'
            + '[queue.g]\ncluster = "gamma"\nslots = 1\npending_limit = 1\nasks = { h_rt = "2h" }\n'
            + '[map.gamma.resource.h_rt]\ndefault = "1h"\n',
            [
                '[map.gamma.resource.h_rt] default = "1h": not a time; expected seconds, or h:m:s',
                '[queue.g] asks.h_rt = "2h": not a time; expected seconds, or h:m:s',
            ],
            id="a walltime that is no time",
        ),
        pytest.param(
            GOOD
            + '[cluster.gamma]\nkind = "oar"\nssh = "gamma"\n'
            + '[map.gamma.resource.h_rt]\nunit = "h"\nrelation = ">="\ndefault = "1h"\n'
            + '[map.gamma.resource.gpu]\nto = "/gpu"\nunit = "M"\nrelation = "="\n'
            + '[map.gamma.resource.hosts]\nto = "/nodes"\n'
            + '[map.gamma.resource.cpus]\nto = "/cpu"\ndefault = "1K"\n'
            + '[map.gamma.resource.h_cpu]\nunit = "h"\n',
            [
                '[map.gamma.resource.h_rt] default = "1h":'
                " impossible to convert: '1h' is no number, memory or time; expected an amount",
                '[map.gamma.resource.h_rt] unit = "h": h_rt is in seconds at the cluster;'
                " expected s or h:m:s, or empty",
                '[map.gamma.resource.h_rt] relation = ">=": a walltime is always an upper limit; expected empty',
                '[map.gamma.resource.gpu] relation = "=": /gpu is requested by number; expected empty',
                '[map.gamma.resource.gpu] unit = "M": /gpu is requested by number; expected empty',
                '[map.gamma.resource.hosts] to = "/nodes": the slots of a job request this level;'
                " expected another level",
                '[map.gamma.resource.cpus] default = "1K": not a number of /cpu; expected a whole number, 1 or more',
            ],
            id="levels and walltime of OAR that are no plain amounts",
        ),
        pytest.param(
            GOOD + "[map]\nbeta = 1\n[map.gamma.colour.x]\n",
            [
                "[map.beta]: no rules; expected [map.beta.KIND.NAME] with a kind of resource, pe, project, queue",
                "[map.gamma]: undefined; expected the name of a remote [cluster.NAME]",
                "[map.gamma.colour]: unknown kind; expected resource, pe, project or queue",
            ],
            id="what is no mapping",
        ),
        pytest.param(
            GOOD
            + '[map.beta.resource."h rt"]\n'
            + '[map.beta.resource.mem]\nunit = "X"\nscale = -1\nfrom = "x"\n'
            + '[map.beta.resource.h_rt]\nunit = "s"\ndefault = "soon"\n'
            + '[map.beta.pe.mpi]\nunit = "s"\n',
            [
                '[map.beta.resource."h rt"]: wrong name;'
                " expected letters, digits, _ . + and -, a letter or digit first",
                "[map.beta.resource.mem] from: unknown key;"
                " the keys are to, scale, unit, relation, default, drop, require, reject",
                "[map.beta.resource.mem] scale = -1: out of range; expected a number, 1e-06 to 1000000.0",
                '[map.beta.resource.mem] unit = "X": unknown word; expected "" or "k" or "K" or "m" or "M"'
                ' or "g" or "G" or "t" or "T" or "s" or "min" or "h" or "h:m:s"',
                '[map.beta.resource.h_rt] default = "soon":'
                " impossible to convert: 'soon' is no number, memory or time; expected an amount",
                "[map.beta.pe.mpi] unit: unknown key; the keys are to, scale, spread, reject",
            ],
            id="wrong rules of a mapping",
        ),
        pytest.param(
            GOOD
            + '[map.beta.resource.gpu]\nreject = "none"\ndefault = "1"\n'
            + "[map.beta.resource.remote]\nrequire = true\n"
            + '[map.beta.resource.a]\nto = "hostname"\n'
            + '[map.beta.resource.b]\ndefault = "1,hostname=x"\n'
            + '[map.beta.project.x]\ndrop = true\nto = "y"\n',
            [
                "[map.beta.resource.gpu]: reject and default contradict each other; expected one of the two",
                "[map.beta.resource.remote]: remote names a host or queue at home, and is never requested remotely",
                "[map.beta.resource.a]: hostname names a host or queue at home, and is never requested remotely",
                '[map.beta.resource.b] default = "1,hostname=x": wrong form; expected one value as qsub -l takes it',
                "[map.beta.project.x]: drop and to contradict each other; expected one of the two",
            ],
            id="rules that contradict themselves",
        ),
        pytest.param(
            GOOD
            + '[map.beta.resource.a]\nto = "b"\n[map.beta.resource.b]\nto = "a"\n'
            + '[map.beta.pe.x]\nto = "y"\n[map.beta.pe.y]\nto = "z"\n[map.beta.pe.z]\nto = "x"\n'
            + '[map.beta.queue.q]\nto = "q"\n[map.beta.queue.p]\nto = "q"\n',
            [
                '[map.beta.resource.a] to = "b": a cycle: a, b, a; expected the remote name',
                '[map.beta.pe.x] to = "y": a cycle: x, y, z, x; expected the remote name',
            ],
            id="names that become each other",
        ),
        pytest.param(
            SITE + "min_uid = 0\n" + CLUSTERS + QUEUE.replace("beta", "gamma") + "[poler]\n",
            [
                "[site] min_uid = 0: out of range; expected a whole number, 1 to 4294967294",
                "[poler]: unknown section; [poller] is the nearest",
                '[queue.transfer-gamma] cluster = "gamma": undefined; expected a remote cluster (beta)',
            ],
            id="problems in several sections",
        ),
    ],
)
def test_several_problems_are_reported_at_once(content: str, expected: list[str]) -> None:
    assert problems_of(content) == expected


def test_a_key_in_the_wrong_section_is_reported_with_its_section() -> None:
    problems = problems_of(f"{GOOD}[balance]\nbilling_s = 3600\n[demand]\nslots = 4\nzzz = 1\n")

    assert [problem for problem in problems if "this is a key of" in problem] == [
        "[balance] billing_s: this is a key of [demand]",
        "[demand] slots: this is a key of [queue.NAME] and [pool.NAME]",
    ]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("demand", 'schedule = "0-24 9-2"'),
        ("demand", 'schedule = "mon-fri 8-20 2-10, 0-24 6-5"'),
        ("demand", 'schedule = "0-25 0-2"'),
        ("demand", 'schedule = "0-24 0--2"'),
        ("demand", 'schedule = "day 0-24 0-2"'),
        ("demand", "budget_hour = nan"),
        ("demand", "budget_month = inf"),
        ("demand", "budget_month = -1"),
        ("demand", "billing_s = 0"),
        ("demand", "billing_s = nan"),
        ("pool.p", "price = nan"),
        ("pool.p", "price = inf"),
        ("pool.p", "price = -inf"),
        ("pool.p", "price = -1"),
        ("pool.p", 'price = "cheap"'),
        ("pool.p", 'prices = "22-25=0.1"'),
        ("pool.p", 'prices = "22-6=-0.1"'),
        ("pool.p", 'prices = "22-6=nan"'),
        ("pool.p", 'prices = "22-6=inf"'),
        ("pool.p", 'prices = "22-6"'),
        ("pool.p", "quota = -1"),
        ("pool.p", "quota = 1.5"),
        ("pool.p", "quota = inf"),
        ("pool.p", "slots = 0"),
        ("pool.p", "limit = -1"),
        ("squeeze", "minimal_reserve = nan"),
        ("squeeze", "target_reserve = inf"),
    ],
)
def test_an_impossible_elastic_value_is_refused_with_its_key(section: str, line: str) -> None:
    key = line.partition(" ")[0]

    (problem,) = problems_of(f"{HOME}[{section}]\n{line}\n")
    assert problem.startswith(f"[{section}] {key}")


@pytest.mark.parametrize("schedule", ["", "0-24 0-0", "0-24 2-2", "mon-fri 8-20 2-10, 0-24 0-5"])
def test_a_valid_schedule_is_accepted(schedule: str) -> None:
    text = f'{HOME}[demand]\nschedule = "{schedule}"\n'

    assert configuration_file.parse_configuration("FILE", text.encode()).demand.schedule == schedule
