"""Which changes of gridbridge.toml a running service takes."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site.service_fault_findings import find_unreloadable_changes
from gridbridge.model.config_key_descriptions import RemoteAccounts
from gridbridge.model.site.site_section import LogLevel, SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection

CLUSTER = ClusterSection(qmaster_port=1, execd_port=2)
SITE = SiteSection(cluster="alpha")
POLICY = Policy(
    site=SITE,
    clusters={"alpha": CLUSTER, "beta": CLUSTER},
    queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=1, slots=1)},
)
EMBEDDED = ClusterSection(kind=ClusterKind.EMBEDDED, folder="/alpha")


@pytest.mark.parametrize(
    "changes",
    [
        {"queues": {}},
        {"poller": PollerSection(interval_s=60, stale_s=200)},
        {"site": replace(SITE, log_level=LogLevel.DEBUG, min_uid=5)},
        {"clusters": {"alpha": replace(CLUSTER, qmaster_port=9), "gamma": CLUSTER}},
    ],
    ids=["queues", "poller", "log", "clusters"],
)
def test_all_but_what_a_site_is_may_change(changes: dict[str, object]) -> None:
    after = replace(POLICY, **changes)  # type: ignore[arg-type]  # of the table above

    assert find_unreloadable_changes(POLICY, after) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"site": SiteSection(cluster="beta")}, '[site] cluster = "beta": the running service uses "alpha"'),
        (
            {"site": replace(SITE, service_account="grid")},
            '[site] service_account = "grid": the running service uses "gridbridge"',
        ),
        (
            {"site": replace(SITE, state="sqlite:////x")},
            '[site] state = "sqlite:////x": the running service uses "sqlite:////var/lib/gridbridge/state.db"',
        ),
        (
            {"clusters": {"alpha": EMBEDDED, "beta": EMBEDDED}},
            '[cluster.alpha] kind = "embedded": the running service uses "gridengine"',
        ),
    ],
    ids=["name", "account", "state", "kind"],
)
def test_what_a_site_is_takes_a_new_service(changes: dict[str, object], told: str) -> None:
    after = replace(POLICY, **changes)  # type: ignore[arg-type]  # of the table above

    (problem,) = find_unreloadable_changes(POLICY, after, "FILE")

    anew = "restart the poller when no transfer is open"
    assert problem == f"FILE: {told}; {anew}"


def by_ssh(**accounts: str) -> Policy:
    far = ClusterSection(qmaster_port=1, execd_port=2, ssh="far", users=RemoteAccounts(accounts))
    return replace(POLICY, clusters={"alpha": CLUSTER, "delta": far})


def test_the_account_of_who_has_a_job_away_stays() -> None:
    """A job can be found only under the account that submitted it."""
    before, after = by_ssh(alice="al", bob="bo"), by_ssh(alice="bo", bob="al", carol="ca")
    away = [("alice", "delta", "q"), ("alice", "delta", "r"), ("carol", "alpha", "q")]

    (problem,) = find_unreloadable_changes(before, after, "FILE", away)

    assert problem == (
        'FILE: [cluster.delta.users] alice = "bo": a job of alice runs at delta as "al";'
        ' restore "al" until no such job is left'
    )
    assert find_unreloadable_changes(before, after, "FILE", [("dave", "delta", "q"), ("bob", "gone", "q")]) == ()


def test_a_queue_leads_where_its_jobs_are() -> None:
    queue = TransferQueueSection(cluster="delta", pending_limit=1, slots=1)
    after = replace(POLICY, queues={"transfer-beta": queue})
    away = [("alice", "beta", "transfer-beta"), ("bob", "beta", "transfer-beta")]

    (problem,) = find_unreloadable_changes(POLICY, after, "FILE", away)

    assert problem == (
        'FILE: [queue.transfer-beta] cluster = "delta": jobs of this queue are at "beta";'
        ' restore "beta", and make another queue for "delta"'
    )
    assert find_unreloadable_changes(POLICY, after, "FILE", [("alice", "delta", "transfer-beta")]) == ()
    assert find_unreloadable_changes(POLICY, POLICY, "FILE", away) == ()
