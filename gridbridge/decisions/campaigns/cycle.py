"""What one cycle of the runner does about all campaigns."""

from gridbridge.decisions.campaigns import predictor
from gridbridge.decisions.campaigns.distribution import sends
from gridbridge.decisions.campaigns.outcomes import runs_again
from gridbridge.model.campaigns.campaign import ArrayState, Attempt, Campaign, CampaignState
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.campaigns.plan import Plan, Seen

BEGUN = (ArrayState.INTENDED, ArrayState.SUBMITTED)  # what another cycle has to go on with


def plan(seen: Seen) -> Plan:
    """Decide from what is seen; the same rows give the same plan."""
    alive = {one.number for one in seen.campaigns if one.state is not CampaignState.CANCELLED}
    again = tuple(
        one
        for one in seen.ended
        if one.campaign in alive and runs_again(one.outcome, one.attempt - _wiped(one, seen))
    )
    over = {(one.campaign, one.number) for one in seen.over}
    left = tuple(one for one in seen.arrays if (one.campaign, one.number) not in over)
    ending = {(one.campaign, one.array) for one in seen.ended}
    predicted = predictor.predict(seen)
    sent = sends(seen, predicted)
    busy = {one.campaign for one in left} | {one.campaign for one in again}
    return Plan(
        ended=seen.ended,
        arrays=tuple(one for one in seen.arrays if (one.campaign, one.number) in ending),
        again=again,
        over=seen.over,
        finished=tuple(
            one.number
            for one in seen.campaigns
            if one.number in alive - busy and _is_sent(one, seen)
        ),
        deleted=tuple(one for one in left if one.campaign not in alive),
        resumed=tuple(one for one in left if one.campaign in alive and one.state in BEGUN),
        sends=sent,
        missed=seen.missed,
        predicted=predictor.kept(predicted, seen.ratios, sent),
    )


def _wiped(one: Attempt, seen: Seen) -> int:
    """Return how many attempts of a task were wiped before they started: they don't count."""
    return seen.wiped.get(one.campaign, {}).get(one.task, 0)


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
    return [each for each in told if each]
