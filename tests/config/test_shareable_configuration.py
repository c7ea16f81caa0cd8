"""The rendered gridbridge.toml keeps what explains a site's behaviour, and nothing that may be secret."""

from gridbridge.config.configuration_file import load_configuration
from gridbridge.config.shareable_configuration import (
    accounts_in_configuration,
    names_in_configuration,
    render_shareable_configuration,
)
from tests.docs.console import ROOT

WRITTEN = """
password = "s3same"
[site]  # ask carol, s3same
cluster = "alpha"
state = "postgresql://s3same:s3same@db.example.org/gridbridge?sslpassword=s3same"
[cluster.alpha]
qmaster_port = 6444
s3same = "s3same"
[cluster.beta]
kind = "s3same"
api = "https://s3same:s3same@beta.example.org/oar"
root = "s3same"
users = { carol = "s3same" }
[cluster."s3same of carol"]
qmaster_port = "s3same"
[queue.transfer-beta]
cluster = "beta"
[provider.cloud]
kind = "ec2"
region = "s3same"
credentials = "/etc/gridbridge/cloud-logins"
arguments = { ex_password = "s3same" }
[power.beta-n1]
user = "s3same"
[map.beta.project.s3same]
to = "s3same"
[s3same]
x = 1
"""
SHOWN = """
[site]
cluster = "alpha"
state = ***

[cluster.alpha]
qmaster_port = 6444
# unknown key: ***

[cluster.beta]
kind = ***
api = ***
root = ***
# users: a table of 1

[cluster.***]
qmaster_port = ***

[queue.transfer-beta]
cluster = "beta"

[map.beta.project.***]
to = ***

[provider.cloud]
kind = "ec2"
region = ***
credentials = "/etc/gridbridge/cloud-logins"
# arguments: a table of 1

[power.beta-n1]
user = ***
# unknown sections or keys: 2
"""


def test_only_values_that_can_be_no_secret_are_shown() -> None:
    assert render_shareable_configuration(WRITTEN.encode()) == SHOWN


def test_the_account_of_a_database_is_not_shown() -> None:
    raw = b'[site]\nstate = "postgresql://carol@db.example.org/gridbridge?host=s3same"\n'

    assert render_shareable_configuration(raw) == '\n[site]\nstate = "postgresql://db.example.org/gridbridge"\n'


def test_no_line_of_a_broken_file_is_shown() -> None:
    assert "s3same" not in render_shareable_configuration(b'[site]\npassword = "s3same\n')


def test_names_of_clusters_and_hosts_are_words_of_the_report_but_parts_of_paths_are_not() -> None:
    names = names_in_configuration(WRITTEN.encode())

    assert {"alpha", "transfer-beta", "beta-n1"} < names
    assert names.isdisjoint({"cloud-logins", "logins", "s3same", "carol"})


def test_accounts_of_people_are_known_so_that_they_can_be_hidden() -> None:
    assert accounts_in_configuration(WRITTEN.encode()) == {"carol", "s3same"}
    assert accounts_in_configuration(b"[") == frozenset()


def test_every_set_key_of_the_sample_is_rendered() -> None:
    path = ROOT / "conf/gridbridge.toml"
    lines = [line.partition(" = ")[0] for line in path.read_text().splitlines() if line[:1].isalpha()]
    shown = render_shareable_configuration(path.read_bytes())

    assert load_configuration(str(path)).site.cluster in shown
    assert [key for key in lines if f"\n{key} = " not in shown and f"\n# {key}: a table" not in shown] == []
