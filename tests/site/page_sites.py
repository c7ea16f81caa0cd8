"""Published files of a busy site for the page, with names that are markup."""

import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    PublishedCampaignEvents,
)
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    CampaignTaskEndCounts,
    PublishedCampaignList,
    PublishedClusterSlots,
    PublishedClusterSlotsList,
)
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.elastic.published_balance import PublishedNodeHistory, PublishedNodeSample
from gridbridge.model.published_status_and_reports import PublishedClusterDrain, PublishedTransferQueue
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.state import drains, published_files, published_json
from tests import measured
from tests.shown import NOW, OPEN, ago, cluster, load, publish, queue, service, shown, transfer

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&amp;"
REVERSED = "\N{RIGHT-TO-LEFT OVERRIDE}\x1b[31m"  # changes what is read beside it
GB = 10**9
HALF_HOUR = timedelta(minutes=30)


def busy_site(folder: Path, name: str = HOSTILE + REVERSED) -> tuple[str, str]:
    """Publish a busy site, with this name of a campaign; return the service's folder and the balancer's."""
    published, balance = folder / "published", folder / "balance"
    publish(published, busy_status())
    drains.make_cluster_drains_folder(str(published))
    drain = PublishedClusterDrain(by="root", at=ago(5400), reason="new disks on Tuesday")
    drains.drain_cluster("delta", drain, str(published))
    for value in (
        busy_campaigns(name),
        PublishedTaskSendExplanations(at=ago(20)),
        PublishedCampaignEvents(at=ago(5), events=busy_events(name)),
        PublishedClusterSlotsList(at=ago(5), clusters=busy_slots()),
    ):
        published_campaign_files.publish_campaign_value(value, str(published))
    for hour in range(1, 9):
        end = CampaignTaskEndCounts(at=ago(3600 * (9 - hour)), cluster="beta", tasks=45 + 8 * (hour % 3), failed=0)
        published_campaign_files.append_published_task_end_counts(41, (end,), str(published))
    published_json.publish_storage_areas(busy_areas(), str(published))
    balancer_statistics_and_publication.write_published_balance(measured.balance(), str(balance))
    published_files.publish_file(
        f"{balance}/{balancer_statistics_and_publication.HISTORY}",
        published_json.encode_published_value(node_history()),
    )
    return str(published), str(balance)


def busy_status() -> published_json.reports.PublishedFilesSnapshot:
    routes = tuple(
        PublishedTransferQueue(queue=f"transfer-{name}", cluster=name, pending_limit=10, slots=2)
        for name in ("beta", "gamma")
    )
    waiting = transfer(transfer="gb.alpha.13.0.1", remote_state="qw", remote_host="", since=ago(1900))
    sending = transfer(transfer="gb.alpha.14.7.1", remote_state="", phase="submitting", since=None, owner="bob")
    home = cluster(
        "alpha", queue(), queue("transfer-gamma@alpha-master", used=0), pending=14, slots=64, used=59, free_slots=5
    )
    beta = cluster("beta", slots=128, used=71, free_slots=49)
    gamma = cluster("gamma", taken_at=ago(1260), trouble="oarstat: no answer within 20 s")
    return shown(
        *(transfer(), waiting, sending),
        service=replace(service(), routes=routes),
        load=load({**OPEN, "gb_gamma_up": "0", "gb_gamma_pending": "0", "gb_gamma_free": "0"}),
        clusters={"alpha": home, "beta": beta, "gamma": gamma},
    )


def busy_campaigns(name: str) -> PublishedCampaignList:
    bag = measured.campaigns().campaigns[0]
    sweep = replace(
        bag,
        number=41,
        name="lattice-sweep",
        submitted_at=ago(9 * 3600),
        tasks=1000,
        ended=432,
        failed=12,
        waiting=512,
        at=(
            CampaignProgressAtCluster(cluster="beta", waiting=4, running=44),
            CampaignProgressAtCluster(cluster="delta", running=16),
        ),
        p50_at=NOW + timedelta(hours=7.4),
        p90_at=NOW + timedelta(hours=9.1),
    )
    hostile = replace(bag, number=42, name=name, owner="bob", at=(), ended=0, failed=0, tasks=80, waiting=80)
    over = replace(bag, number=40, name="reads", state=CampaignState.TERMINATED, ended=100, at=(), failed=0)
    return PublishedCampaignList(at=ago(5), campaigns=(over, sweep, hostile))


def busy_slots() -> tuple[PublishedClusterSlots, ...]:
    beta = PublishedClusterSlots(
        name="beta",
        kind="gridengine",
        answered_at=ago(5),
        slots=128,
        used=71,
        free=49,
        running=44,
        used_by_campaigns=44,
    )
    delta = PublishedClusterSlots(
        name="delta",
        kind="gridengine",
        answered_at=ago(9),
        slots=32,
        used=20,
        free=12,
        running=16,
        used_by_campaigns=16,
    )
    return beta, delta


def busy_events(name: str) -> tuple[CampaignEvent, ...]:
    failed = CampaignEvent(
        number=7,
        kind=CampaignEventSubject.TASK,
        code=CampaignEventCode.EXIT_ERROR,
        campaign=41,
        cluster="beta",
        exit_status=3,
        tasks=12,
        opened_at=ago(7000),
        last_at=ago(600),
    )
    silent = CampaignEvent(
        number=8,
        kind=CampaignEventSubject.CLUSTER,
        code=CampaignEventCode.GET_JOBS,
        cluster="gamma",
        opened_at=ago(1260),
        last_at=ago(60),
        until=NOW + timedelta(minutes=4),
        why=f"oarstat: no answer about {name}",
    )
    return failed, silent, replace(failed, number=6, closed_at=ago(60))


def busy_areas() -> PublishedStorageAreas:
    areas = (
        MeasuredStorageArea(storage="beta-scratch", clusters=("beta",), size_bytes=4000 * GB, free_bytes=2700 * GB),
        MeasuredStorageArea(storage="delta-disk", clusters=("delta",), size_bytes=900 * GB, free_bytes=61 * GB),
        MeasuredStorageArea(storage="gamma-disk", clusters=("gamma",), fault="gamma gives no answer"),
        MeasuredStorageArea(storage="archive", clusters=(), size_bytes=10**18, free_bytes=10**18, is_store=True),
    )
    return PublishedStorageAreas(at=ago(1500), areas=areas)


def node_history() -> PublishedNodeHistory:
    """Return seven days of samples, with a gap of five hours."""
    samples = tuple(
        PublishedNodeSample(
            begin=NOW - HALF_HOUR * count,
            hosts=4 + _wave(count),
            nodes=_wave(count),
            queued=max(0, 4 * _wave(count + 3) - 9),
        )
        for count in range(334, 0, -1)
        if count not in range(150, 160)
    )
    return PublishedNodeHistory(cluster="alpha", samples=samples)


def _wave(count: int) -> int:
    return max(0, round(5 + 6 * math.sin(count / 7.6) + 2 * math.sin(count / 2.1)))
