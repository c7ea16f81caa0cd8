"""What one cycle of the runner does about all campaigns."""

from collections.abc import Set

from gridbridge.decisions.campaigns import predictor
from gridbridge.decisions.campaigns.distribution import sends
from gridbridge.decisions.campaigns.failures.blacklist import bars, limited, may_go_on, opened
from gridbridge.decisions.campaigns.failures.event_words import said
from gridbridge.decisions.campaigns.failures.events import note
from gridbridge.decisions.campaigns.failures.retries import to_run_again
from gridbridge.model.campaigns.campaign import (
    ArrayState,
    Campaign,
    CampaignState,
    clusters_of,
)
from gridbridge.model.campaigns.events import Changes
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.campaigns.plan import Again, Plan, Seen, Tried

BEGUN = (ArrayState.INTENDED, ArrayState.SUBMITTED)  # what another cycle has to go on with


def plan(seen: Seen) -> Plan:
    """Decide from what is seen; the same rows give the same plan."""
    alive = {one.number for one in seen.campaigns if one.state is not CampaignState.CANCELLED}
    again = _again(seen, alive)
    over = {(one.campaign, one.number) for one in seen.over}
    left = tuple(one for one in seen.arrays if (one.campaign, one.number) not in over)
    ending = {(one.campaign, one.array) for one in seen.ended}
    predicted = predictor.predict(seen)
    busy = {one.campaign for one in left} | {one.campaign for one in again}
    finished = tuple(
        one.number for one in seen.campaigns if one.number in alive - busy and _is_sent(one, seen)
    )
    book, records = note(seen, again, finished)
    barred = bars(book.open, seen.at)
    sent = limited(sends(opened(seen, barred), predicted), seen, barred, book)
    begun = (one for one in left if one.campaign in alive and one.state in BEGUN)
    return Plan(
        ended=seen.ended,
        arrays=tuple(one for one in seen.arrays if (one.campaign, one.number) in ending),
        again=again,
        over=seen.over,
        finished=finished,
        deleted=tuple(one for one in left if one.campaign not in alive),
        resumed=tuple(one for one in begun if may_go_on(one, book.open, seen.at)),
        sends=sent,
        missed=seen.missed,
        predicted=predictor.kept(predicted, seen.ratios, sent),
        changes=Changes(events=book.changed, records=records),
    )


def _again(seen: Seen, alive: Set[int]) -> tuple[Again, ...]:
    """Return the tasks that are tried once more; those of a test are tried once."""
    clusters = {
        one.number: one.jdl.clusters.keys()
        for one in seen.campaigns
        if one.number in alive and one.jdl.type is not Type.TEST
    }
    where = clusters_of(seen.arrays)
    ended = (
        Tried(
            campaign=one.campaign,
            task=one.task,
            attempt=one.attempt,
            cluster=where.get((one.campaign, one.array), ""),
            outcome=one.outcome,
        )
        for one in seen.ended
    )
    return to_run_again(ended, seen.earlier, clusters, seen.failures)


def _is_sent(campaign: Campaign, seen: Seen) -> bool:
    """Say whether no task of a campaign will be sent any more; a test drops the rest of them."""
    if campaign.jdl.type is Type.TEST:
        return seen.tried.get(campaign.number, frozenset()) >= campaign.jdl.clusters.keys()
    return not seen.waiting.get(campaign.number)


def sentences(plan: Plan) -> list[str]:
    """Tell what a cycle does, a sentence for each kind of thing."""
    sent = ", ".join(
        f"{one.tasks} of campaign {one.campaign} to {one.cluster}" for one in plan.sends
    )
    again = f", {len(plan.again)} of them run again" if plan.again else ""
    told = [f"{len(plan.ended)} tasks ended{again}" if plan.ended else ""]
    told += [f"{len(plan.deleted)} arrays are deleted" if plan.deleted else ""]
    told += predictor.sentences(plan.predicted)
    told += [f"sent: {sent}" if sent else ""]
    told += [f"campaign {number} has ended" for number in plan.finished]
    told += [said(one) for one in plan.changes.events]
    return [each for each in told if each]
