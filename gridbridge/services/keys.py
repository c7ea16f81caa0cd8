"""Proves that people's keys lead into their accounts elsewhere, as their jobs will use them."""

import os
import pwd
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from gridbridge.errors import GridbridgeError
from gridbridge.model.policy import Policy
from gridbridge.model.route import login
from gridbridge.model.site import KeyFacts
from gridbridge.model.users import Users
from gridbridge.shell import host, ssh

AT_ONCE = 4  # sshd drops connections beyond ten that have not logged in (MaxStartups)
LIMIT_S = 20.0
NO_ACCOUNT = "no such account here"


def key_facts(policy: Policy) -> tuple[KeyFacts, ...]:
    """Return whom each cluster by ssh lets in: whom gridbridge.toml names, or who asks but root."""
    led_to = {queue.cluster for queue in policy.queues.values()}
    places = [(name, policy.clusters[name]) for name in policy.clusters if name in led_to]
    whose = [
        (name, cluster.ssh, cluster.users.account_of(person), person)
        for name, cluster in places
        if cluster.ssh
        for person in _people(policy, cluster.users)
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(threads.map(lambda words: _facts(*words), whose))


def _people(policy: Policy, named: Users) -> Iterator[str]:
    """Give those whose keys we can use; the service's own is what everything else is asked by."""
    if os.geteuid() != 0:
        yield pwd.getpwuid(os.geteuid()).pw_name
        return
    yield from (person for person in named if person != policy.site.service_account)


def _facts(cluster: str, place: str, account: str, person: str) -> KeyFacts:
    trouble = NO_ACCOUNT if not host.uid_of(person) else _trouble(place, account, person)
    return KeyFacts(cluster=cluster, person=person, account=account, trouble=trouble)


def _trouble(place: str, account: str, person: str) -> str:
    """Log in with OpenSSH's client, as starters do, and return why that does not go."""
    try:
        ssh.run(login(place, account, person), ("true",), {}, LIMIT_S, carrier=ssh.Client())
    except GridbridgeError as error:
        return str(error)
    return ""
