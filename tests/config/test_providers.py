"""Wrong settings of providers, pools, powered hosts and storage areas are refused with the expected value."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.config_key_descriptions import ABSOLUTE_PATH, CLUSTER_NAME, OBJECT_NAME, PATHS_AT_CLUSTERS
from gridbridge.model.elastic.balancer_config_sections import (
    HostPowerSection,
    MachineProviderSection,
    NodePoolSection,
    PowerSwitchMethod,
    ProviderKind,
)
from tests.config.policy_text import format_policy
from tests.config.refusals import HOME, SITE, problems_of

COMMAND = '[provider.rental]\nprogram = "/opt/rent"\n'
EC2 = '[provider.cloud]\nkind = "ec2"\nregion = "eu-west-1"\n'
LIBCLOUD = '[provider.cloud]\nkind = "libcloud"\ndriver = "openstack"\n'
POWER = '[provider.bmc]\nkind = "power"\n'
WAKE = POWER + 'way = "wake"\nbroadcast = "10.0.0.255"\n'
HOST = '[power.n1]\nprovider = "bmc"\n'
BMC = 'bmc = "10.0.1.1"\nuser = "grid"\npassword_file = "/etc/bmc"\n'
PATH = "an absolute path in printable ASCII"
WORD = "printable ASCII without blanks"
HEEDED = "expected a provider of kind ec2 or libcloud"


def test_a_provider_of_each_kind_is_read() -> None:
    pools = '[pool.a]\nprovider = "cloud"\nimage = "ami-1"\nsize = "m5.large"\n'
    text = SITE + COMMAND + EC2 + WAKE + pools + HOST + 'mac = "52:54:00:12:34:56"\n'

    policy = configuration_file.parse_configuration("FILE", text.encode())

    assert {
        "rental": MachineProviderSection(program="/opt/rent"),
        "cloud": MachineProviderSection(kind=ProviderKind.EC2, region="eu-west-1"),
        "bmc": MachineProviderSection(kind=ProviderKind.POWER, way=PowerSwitchMethod.WAKE, broadcast="10.0.0.255"),
    } == policy.providers
    assert {"a": NodePoolSection(provider="cloud", image="ami-1", size="m5.large")} == policy.pools
    assert {"n1": HostPowerSection(provider="bmc", mac="52:54:00:12:34:56")} == policy.powered


def test_a_pool_may_take_its_image_from_its_provider() -> None:
    text = f'{SITE}{LIBCLOUD}image = "debian-12"\nsize = "m1"\n[pool.a]\nprovider = "cloud"\n'

    assert configuration_file.parse_configuration("FILE", text.encode()).pools["a"] == NodePoolSection(provider="cloud")


@pytest.mark.parametrize(
    "sections",
    [
        COMMAND + '[pool.a]\nprovider = "rental"\n',
        EC2 + '[pool.a]\nprovider = "cloud"\nimage = "ami-1"\nsize = "m5"\nspot = true\n',
        LIBCLOUD + 'arguments = { ex_tenant_name = "h p c" }\n',
        POWER + HOST + BMC,
        WAKE + 'program = "/x"\n' + HOST + 'mac = "52:54:00:12:34:56"\n',
    ],
    ids=["command", "ec2", "libcloud", "ipmi", "wake"],
)
def test_provider_sections_survive_writing_and_reading(sections: str) -> None:
    policy = configuration_file.parse_configuration("FILE", (SITE + sections).encode())

    assert configuration_file.parse_configuration("FILE", format_policy(policy).encode()) == policy


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[provider.rental]\n", f"[provider.rental] program: missing; expected {PATH}"),
        (
            '[provider.rental]\nprogram = "rent"\n',
            f'[provider.rental] program = "rent": wrong form; expected {PATH}, or empty',
        ),
        (
            '[provider.rental]\nkind = "gce"\n',
            '[provider.rental] kind = "gce": unknown word; expected "command" or "ec2" or "libcloud" or "power"',
        ),
        ('[provider.cloud]\nkind = "ec2"\n', f"[provider.cloud] region: missing; expected {WORD}"),
        ('[provider.cloud]\nkind = "libcloud"\n', f"[provider.cloud] driver: missing; expected {WORD}"),
        (
            EC2 + 'driver = "gce"\n',
            '[provider.cloud] driver = "gce": with kind ec2; expected one of the keys region, credentials,'
            " image, size, key_name, endpoint, user_data, subnet, security_groups",
        ),
        (
            EC2 + 'endpoint = "https://me:secret@cloud/"\n',
            '[provider.cloud] endpoint = "https://***": wrong form;'
            " expected https://HOST/ without a name and password, or empty",
        ),
        (
            LIBCLOUD + "arguments = { ex_project = 5 }\n",
            "[provider.cloud] arguments.ex_project = 5: wrong form;"
            ' expected a table of texts: { ex_tenant_name = "hpc" }',
        ),
        (COMMAND + "timeout_s = 0\n", "[provider.rental] timeout_s = 0: out of range; expected a number, 1 to 3600 s"),
        (
            COMMAND + 'secret = "x"\n',
            "[provider.rental] secret: unknown key; the keys are kind, timeout_s, program,"
            " region, endpoint, credentials, image, size, key_name, user_data, subnet,"
            " security_groups, driver, arguments, way, broadcast",
        ),
        ("[provider]\nx = 1\n", "[provider.x]: not a section; expected keys below [provider.NAME]"),
        (
            '[provider."a b"]\nprogram = "/x"\n',
            '[provider."a b"]: wrong name; expected letters, digits, _ . + and -, a letter or digit first',
        ),
        (
            COMMAND + '[pool.a]\nprovider = "cloud"\n',
            '[pool.a] provider = "cloud": undefined; expected a provider (rental)',
        ),
        (
            POWER + '[pool.a]\nprovider = "bmc"\n',
            '[pool.a] provider = "bmc": makes no machines; expected a provider (none is defined)',
        ),
        (
            EC2 + 'size = "m5"\n[pool.a]\nprovider = "cloud"\n',
            "[pool.a] image: missing; expected here or in [provider.cloud]",
        ),
        (
            COMMAND + '[pool.a]\nprovider = "rental"\nimage = "ami-1"\n',
            f'[pool.a] image = "ami-1": with kind command; {HEEDED}',
        ),
        ('[pool.a]\nsize = "m5"\n', f'[pool.a] size = "m5": without a provider; {HEEDED}'),
        (POWER + "[power.n1]\n" + BMC, "[power.n1] provider: missing; expected a provider of kind power"),
        (
            COMMAND + '[power.n1]\nprovider = "rental"\n',
            '[power.n1] provider = "rental": undefined; expected a provider of kind power (none is defined)',
        ),
        (WAKE + HOST, '[power.n1] mac: missing; expected "52:54:00:12:34:56"'),
        (
            WAKE + HOST + 'mac = "52:54:00:12:34:56"\nuser = "grid"\n',
            '[power.n1] user = "grid": with way wake; expected one of the keys mac',
        ),
        (
            WAKE + HOST + 'mac = "52-54-00-12-34-56"\n',
            '[power.n1] mac = "52-54-00-12-34-56": wrong form; expected "52:54:00:12:34:56", or empty',
        ),
        (
            POWER + 'way = "command"\nprogram = "/x"\n' + HOST + 'mac = "52:54:00:12:34:56"\n',
            '[power.n1] mac = "52:54:00:12:34:56": with way command; expected no such key',
        ),
        (POWER + 'way = "command"\n', f"[provider.bmc] program: missing; expected {PATH}"),
        (POWER + 'way = "wake"\n', "[provider.bmc] broadcast: missing; expected HOST or HOST:PORT"),
        (POWER + 'program = "/x"\n', '[provider.bmc] program = "/x": with way ipmi; expected no such key'),
        (
            WAKE + '[power."N 1"]\nprovider = "bmc"\nmac = "52:54:00:12:34:56"\n',
            '[power."N 1"]: wrong name; expected a host name of small letters, digits, - and .',
        ),
        (
            POWER + 'way = "smoke"\n',
            '[provider.bmc] way = "smoke": unknown word; expected "ipmi" or "wake" or "command"',
        ),
    ],
)
def test_a_wrong_provider_pool_or_powered_host_is_refused(text: str, problem: str) -> None:
    assert problems_of(SITE + text) == [problem]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            '[pool.a]\nhost_key = "n1 ssh-ed25519 AAAA"\n',
            [
                '[pool.a] host_key = "n1 ssh-ed25519 AAAA": wrong form; expected "ssh-ed25519 AAAA...", or empty',
                f'[pool.a] host_key = "n1 ssh-ed25519 AAAA": without a provider; {HEEDED}',
            ],
        ),
        (
            "[pool.a]\nprovider = 5\n",
            [
                "[pool.a] provider = 5: wrong type; expected the NAME of a [provider.NAME], or empty",
                "[pool.a] provider = 5: undefined; expected a provider (none is defined)",
            ],
        ),
        (
            COMMAND + 'region = "eu"\nimage = "ami-1"\n',
            [
                '[provider.rental] region = "eu": with kind command; expected one of the keys program',
                '[provider.rental] image = "ami-1": with kind command; expected one of the keys program',
            ],
        ),
        (
            POWER + HOST,
            [
                "[power.n1] bmc: missing; expected HOST or HOST:PORT",
                f"[power.n1] user: missing; expected {WORD}",
                f"[power.n1] password_file: missing; expected {PATH}",
            ],
        ),
    ],
)
def test_several_problems_of_a_provider_or_powered_host_are_reported(text: str, problems: list[str]) -> None:
    assert problems_of(SITE + text) == problems


BOOT = '[bootstrap]\nuser = "adm"\nkey = "/k"\n'


def test_a_bootstrap_step_without_its_value_is_refused() -> None:
    """A node without the cell's folder never joins, and no error would say why."""
    assert problems_of(f'{SITE}{BOOT}steps = "names people mounts execd"\n') == [
        f'[bootstrap] {key}: empty; expected a value, or steps without "{key}"' for key in ("people", "mounts")
    ]


@pytest.mark.parametrize("keys", ['"names execd"', '"people mounts"\npeople = "alice"\nmounts = "/etc/site/mounts"'])
def test_bootstrap_steps_with_their_values_are_accepted(keys: str) -> None:
    text = f"{SITE}{BOOT}steps = {keys}\n"

    assert configuration_file.parse_configuration("FILE", text.encode()).bootstrap.steps in keys


AREA = f'{HOME}[storage.disk]\ncluster = "alpha"\npath = "/disk"\n'


def test_a_storage_area_needs_a_cluster_and_a_path() -> None:
    assert [*configuration_file.parse_configuration("FILE", AREA.encode()).storage] == ["disk"]


@pytest.mark.parametrize(
    ("section", "keys", "problem"),
    [
        ("x", 'cluster = "beta"\npath = "/x"', ' cluster = "beta": undefined; expected one of alpha'),
        ("x", 'cluster = ["alpha"]\npath = "/x"', f' cluster = ["alpha"]: wrong type; expected {CLUSTER_NAME.right}'),
        (
            "x",
            'cluster = "alpha"\npath = "/disk/"',
            ' path = "/disk": the folder of disk; expected a folder of its own',
        ),
        ("x", 'cluster = "alpha"\npath = "disk"', f' path = "disk": wrong form; expected {ABSOLUTE_PATH.right}'),
        ("x", 'cluster = "alpha"', f" path: missing; expected {ABSOLUTE_PATH.right}"),
        (
            "x",
            'cluster = "alpha"\npath = "/x"\nmax_bytes = -1',
            " max_bytes = -1: out of range; expected a whole number, 0 to 1000000000000000000 bytes",
        ),
        ('"a/b"', 'cluster = "alpha"\npath = "/x"', f": wrong name; expected {OBJECT_NAME.right}"),
        (
            "alpha",
            'cluster = "alpha"\npath = "/x"',
            ": the name of a cluster; expected another name, such as alpha-data",
        ),
        ("x", "", f" cluster: missing; expected cluster and path; or clusters, {PATHS_AT_CLUSTERS.right}"),
        ("x", 'path = "/x"', f" cluster: missing; expected {CLUSTER_NAME.right}"),
        (
            "x",
            'clusters = { alpha = "/x" }\npath = "/x"',
            ' clusters = { alpha = "/x" }: beside cluster or path; expected either clusters, or cluster and path',
        ),
        ("x", "clusters = {}", f" clusters = {{}}: empty; expected {PATHS_AT_CLUSTERS.right}"),
        ("x", 'clusters = ["alpha"]', f' clusters = ["alpha"]: wrong type; expected {PATHS_AT_CLUSTERS.right}'),
        (
            "x",
            'clusters = { alpha = "x" }',
            f' clusters.alpha = "x": wrong form; expected {PATHS_AT_CLUSTERS.right}',
        ),
        (
            "x",
            'clusters = { alpha = "/x", beta = "/y" }',
            ' clusters.beta = "/y": an undefined cluster; expected one of alpha',
        ),
        (
            "x",
            'clusters = { alpha = "/disk/" }',
            ' clusters.alpha = "/disk": the folder of disk; expected a folder of its own',
        ),
    ],
)
def test_a_wrong_storage_area_is_refused_with_the_expected_value(section: str, keys: str, problem: str) -> None:
    assert problems_of(f"{AREA}[storage.{section}]\n{keys}\n") == [f"[storage.{section}]{problem}"]


def test_the_clusters_of_a_shared_area_have_the_area_at_their_own_paths() -> None:
    beta = "[cluster.beta]\nqmaster_port = 3\nexecd_port = 4\n"
    shared = f'{HOME}{beta}[storage.shared]\nclusters = {{ alpha = "/data", beta = "/mnt/data" }}\n'

    policy = configuration_file.parse_configuration("FILE", shared.encode())

    assert {"alpha": "/data", "beta": "/mnt/data"} == policy.storage["shared"].paths_by_cluster


def test_input_files_of_a_cluster_go_to_an_area_that_the_cluster_sees() -> None:
    beta = '[cluster.beta]\nqmaster_port = 3\nexecd_port = 4\n[campaigns.beta]\ninputs_storage = "shared"\n'
    area = f"{HOME}{beta}[storage.shared]\nclusters = "

    policy = configuration_file.parse_configuration("FILE", f'{area}{{ alpha = "/a", beta = "/b" }}\n'.encode())

    assert "shared" == policy.campaigns["beta"].inputs_storage
    right = "expected a storage area of beta (none is defined)"
    refused = f'[campaigns.beta] inputs_storage = "shared": undefined; {right}'
    assert [refused] == problems_of(f'{area}{{ alpha = "/a" }}\n')
