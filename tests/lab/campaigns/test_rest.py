"""A campaign runs at an OAR server that is reached by its REST interface alone."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.campaigns import runner
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

AT = "/etc/gridbridge/rest"
SECTION = [
    "[cluster.rest]",
    'kind = "oar"',
    'api = "https://gamma-master:6669/oarapi"',
    f'api_login = "{AT}-login.toml"',
    f'api_reader = "{AT}-reader.toml"',
    f'users = {{ alice = "{ACCOUNT}", gridbridge = "gb_gamma" }}',
]
AUTHORITY = f'authority = "{AT}-authority.pem"\n'
LOGIN = f'certificate = "{AT}-certificate.pem"\n{AUTHORITY}'
READER = f'user = "gb_gamma"\npassword = "gridlab-status"\n{AUTHORITY}'
TASKS = 4


@pytest.fixture
def by_rest(site: Grid) -> Iterator[Grid]:
    """Add gamma as a further cluster by REST: root has a client certificate, the service a password."""
    authority = site.sh(FAR, "cat /etc/oar/api/authority.pem")
    certificate = site.sh(FAR, "cat /etc/oar/api/client.pem /etc/oar/api/client.key")
    files = {"authority.pem": authority, "certificate.pem": certificate, "login.toml": LOGIN, "reader.toml": READER}
    for name, content in files.items():
        site.on(runner.HOST, "sh", "-c", f"umask 077; cat >{AT}-{name}", stdin=content)
    site.sh(runner.HOST, f"chgrp gridbridge {AT}-reader.toml; chmod g=r {AT}-reader.toml; chmod 644 {AT}-authority.pem")
    with configured(site, "$ a " + "\\n".join(SECTION)):
        yield site
        runner.end_all(site)
    site.sh(runner.HOST, f"rm {AT}-*")
    site.sh(FAR, "rm -f ~/rest.*", user=ACCOUNT)


def test_a_campaign_runs_at_a_cluster_by_rest_as_its_owner(by_rest: Grid) -> None:
    clusters = {"rest": {"exec_file": "sh -c 'echo once >>~/rest.$0'"}}
    number = runner.submit(by_rest, {"name": "rest", "nb_jobs": TASKS, "walltime": "0:5", "clusters": clusters})
    runner.until_state(by_rest, number, "terminated")
    ran = by_rest.sh(FAR, "cat ~/rest.*", user=ACCOUNT).split()
    tasks = json.loads(by_rest.on(runner.HOST, "gridstat", str(number), "-f", "-d", user="bob").out)["jobs"]

    assert ran == ["once"] * TASKS
    assert [(task["cluster"], task["state"], task["attempt"]) for task in tasks] == [("rest", "success", 1)] * TASKS
    assert not runner.at_gamma(by_rest, number)


def test_check_names_a_login_that_the_interface_rejects(by_rest: Grid) -> None:
    def found() -> str:
        told = json.loads(by_rest.on(runner.HOST, "gridbridge", "check", "--json").out)
        return " ".join(json.dumps(item) for item in told["items"] if "rest" in json.dumps(item))

    good = found()
    by_rest.sh(runner.HOST, f"sed -i s/gridlab-status/wrong/ {AT}-reader.toml")

    assert "OAR 2.5.9" in good
    assert "rest-reader.toml is not admitted as gb_gamma" in found()
