"""Published files of a site that uses every capability, for size measurements."""

from dataclasses import replace
from pathlib import Path

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.decisions.elastic.balancer_round_reports import (
    BalancerRoundNodeChanges,
    balancer_figures_if_cell_observed,
    count_balancer_round_figures,
)
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    PublishedCampaignEvents,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    PublishedCampaign,
    PublishedCampaignList,
    PublishedClusterSlots,
    PublishedClusterSlotsList,
    PublishedForecastErrors,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.published_balance import (
    PublishedBalancerFigures,
    RecentlyEndedTasks,
    TasksEndedInMinute,
    minute_since_epoch,
)
from gridbridge.model.jobs_and_accounting import AccountingFilePosition
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.state import published_json
from tests.decisions.elastic import cells
from tests.shown import NOW, ago, publish, shown, transfer

FIGURES = BalancePlanFigures(
    nodes=4,
    running=3,
    jobs=2,
    wanted=6,
    free=1,
    slots=8,
    slots_per_node=4,
    waited_s=125.0,
    unchanged_s=None,
    most=9,
    least=2,
)


def site(folder: Path) -> tuple[str, str]:
    """Publish all files; return the service's folder and the balancer's."""
    waiting = transfer(transfer="gb.alpha.13.0.1", remote_state="qw", remote_host="", owner="bob")
    going = transfer(transfer="gb.alpha.14.0.1", remote_state="", phase="held", since=None)
    lost = transfer(transfer="gb.alpha.15.0.1", remote_state="r", missing_since=ago(60))
    publish(folder / "published", shown(transfer(), waiting, going, lost))
    for value in (campaigns(), grid(), events()):
        published_campaign_files.publish_campaign_value(value, str(folder / "published"))
    published_json.publish_rebalance_round_begin(RebalanceRoundKind.TASKS, ago(7200), str(folder / "published"))
    published_json.publish_rebalance_round_begin(RebalanceRoundKind.DATASETS, ago(7200), str(folder / "published"))
    published_json.publish_rebalance_round_end(RebalanceRoundKind.DATASETS, ago(3600), str(folder / "published"))
    balancer_statistics_and_publication.write_published_balance(balance(), str(folder / "balance"))
    return str(folder / "published"), str(folder / "balance")


def campaigns() -> PublishedCampaignList:
    one = PublishedCampaign(
        number=1,
        name="bag",
        owner="alice",
        submitted_at=ago(7200),
        type=CampaignType.DEFAULT,
        state=CampaignState.IN_TREATMENT,
        clusters=("beta", "gamma"),
        tasks=100,
        ended=40,
        failed=3,
        waiting=50,
        at=(
            CampaignProgressAtCluster(cluster="beta", waiting=1, running=4, ended_per_h=30.0),
            CampaignProgressAtCluster(cluster="gamma", waiting=0, running=5),
        ),
    )
    over = replace(one, number=2, owner="bob", state=CampaignState.CANCELLED)
    errors = PublishedForecastErrors(forecasts=4, p90_held=3, median_error=0.125)
    return PublishedCampaignList(at=ago(5), campaigns=(one, over), errors=errors)


def grid() -> PublishedClusterSlotsList:
    beta = PublishedClusterSlots(
        name="beta", kind="gridengine", answered_at=ago(5), slots=4, used=4, free=0, waiting=1, running=4
    )
    return PublishedClusterSlotsList(at=ago(5), clusters=(beta, PublishedClusterSlots(name="gamma", kind="oar")))


def events() -> PublishedCampaignEvents:
    one = CampaignEvent(
        kind=CampaignEventSubject.CAMPAIGN,
        code=CampaignEventCode.BLACKLIST,
        campaign=1,
        cluster="gamma",
        opened_at=ago(300),
        last_at=ago(60),
    )
    return PublishedCampaignEvents(at=ago(5), events=(one, replace(one, closed_at=ago(10))))


def balance() -> PublishedBalancerFigures:
    nodes = (
        cells.node("n3", pool="usual"),
        cells.node("n4", None, "booting", pool="usual"),
        cells.node("n5", None, "failed", pool="cheap"),
    )
    waits = (cells.waiting(2, tasks=6), cells.waiting(9, state="hqw"))
    busy = cells.situation(cells.instance("n1", (1, 1, 2)), cells.instance("n3", (4,)), wait=waits, nodes=nodes)
    seen = replace(busy, now=NOW, spent=3.5)
    minutes = (TasksEndedInMinute(minute=minute_since_epoch(ago(600)), tasks=2, run_s=240, wait_s=30),)
    counted = count_balancer_round_figures(
        seen, RecentlyEndedTasks(place=AccountingFilePosition(), minutes=minutes), "all.q"
    )
    refused = (
        NodeAddOrRemoveRefusal(job=8, cause=NodeAddOrRemoveRefusalCause.HELD),
        NodeAddOrRemoveRefusal(host="n1", cause=NodeAddOrRemoveRefusalCause.BUSY),
    )
    plan = BalancePlan(verdict=BalancePlanReason.WAITS, figures=FIGURES, add=1, pool="usual", refused=refused)
    done = BalancerRoundNodeChanges(
        took_s=0.25,
        sentence="2 jobs wait: add 1",
        is_acting=True,
        cost_hour=1.6,
        added={"usual": 1},
        failed={"cheap": 1},
    )
    return balancer_figures_if_cell_observed(None, "alpha", seen, plan, counted, done)
