"""What a round does by policy demand: it adds nodes, or removes some, or does nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.demand import budget, completion_times, stuck_jobs
from gridbridge.decisions.elastic.demand.capacity import Blocks, HostRoom
from gridbridge.decisions.elastic.demand.first_fit import place, place_any
from gridbridge.decisions.elastic.demand.free_capacity import (
    away,
    instances_of,
    is_expected,
    patterns_of,
    whole_rooms,
    widest,
)
from gridbridge.decisions.elastic.demand.pending_demand import PendingShape, claims, told_of
from gridbridge.decisions.elastic.demand.pool_offers import PurchaseLimits, purse
from gridbridge.decisions.elastic.demand.requirements import Requirement
from gridbridge.decisions.elastic.demand.round_context import RoundContext, scene_of
from gridbridge.decisions.elastic.demand.scale_down import shrunk
from gridbridge.decisions.elastic.demand.scale_up import ScaleUp, buy, too_few
from gridbridge.decisions.elastic.demand.unschedulable import lacking
from gridbridge.decisions.elastic.readiness import counted, is_unready
from gridbridge.decisions.elastic.starcluster_counts import elapsed_s, nodes_of
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    Figures,
    UnservedDemand,
    Watched,
)
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool
from gridbridge.model.elastic.node import Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingResult:
    """What waits, and where there is room for it."""

    blocks: Blocks
    fit: int  # tasks
    left: tuple[tuple[PendingShape, int], ...]  # tasks without room
    buffer: tuple[tuple[Requirement, int], ...]  # what is to be spare and is not


def decide(
    seen: BalanceSituation, rules: Balance, demand: Demand, pools: Mapping[str, Pool]
) -> BalancePlan:
    """Return what a round does; the same situation gives the same plan.

    It holds that nodes + add <= the most, and nodes - removed >= the least.
    """
    scene = scene_of(seen, rules, demand, pools)
    wanted, refused, watched = _wanted(scene)
    packed = _packed(scene, wanted)
    plan = BalancePlan(
        verdict=DemandVerdict.NO_NEED,
        figures=_figures(scene, wanted),
        refused=(*refused, *_impossible(scene, packed)),
        wake=None if seen.standby is None else (),
        watched=watched,
    )
    if not rules.max_nodes:
        return replace(plan, verdict=DemandVerdict.NO_MAXIMUM)
    if is_unready(seen):
        return replace(plan, verdict=DemandVerdict.UNREADY)
    if unpaid := budget.unpaid(seen, rules, demand, pools, scene.order):
        return replace(plan, verdict=DemandVerdict.MONTH_SPENT, remove=unpaid)
    if dear := budget.too_dear(seen, demand, pools, scene.order):
        return replace(plan, verdict=DemandVerdict.TOO_DEAR, remove=dear)
    plan = replace(plan, figures=replace(plan.figures, fit=packed.fit))
    grown = _grown(plan, scene, packed, wanted)
    if grown.add or grown.wake or grown.verdict is DemandVerdict.BELOW_MINIMUM:
        return grown
    return shrunk(grown, seen, demand, scene.least, packed.blocks, scene.order)


def _wanted(
    scene: RoundContext,
) -> tuple[tuple[PendingShape, ...], tuple[UnservedDemand, ...], Mapping[int, Watched]]:
    """Return what is demand, why the other jobs are none, and what to know of them next time."""
    situation, after_s = scene.situation, scene.demand.stuck_after_s
    still = stuck_jobs.still(situation, after_s)
    wanted, refused = claims(
        situation, widest(situation.cell, [offer.room for offer in scene.offers]), still.keys()
    )
    rows = {**still, **stuck_jobs.watched(wanted, situation, scene.there, scene.ground, after_s)}
    return stuck_jobs.without(wanted, rows), (*refused, *stuck_jobs.refusals(situation, rows)), rows


def _figures(scene: RoundContext, wanted: Sequence[PendingShape]) -> Figures:
    situation = scene.situation
    nodes, by_host = nodes_of(situation), instances_of(situation)
    usable = [
        instance for instances in by_host.values() for instance in instances if instance.is_usable
    ]
    hosts, unready = counted(situation)
    return Figures(
        nodes=len(nodes),
        running=sum(not one.state.is_coming for one in nodes),
        failed=sum(one.is_left_over for one in nodes),
        leaving=sum(one.state.is_leaving for one in nodes),
        jobs=sum(len(one.jobs) for one in wanted),
        wanted=sum(one.slots for one in wanted),
        free=sum(one.free for one in usable),
        slots=sum(one.total for one in usable),
        slots_per_node=None,
        waited_s=max((one.waited_s for one in wanted), default=0.0),
        unchanged_s=None
        if situation.last_change is None
        else elapsed_s(situation.last_change, situation.now),
        tasks=sum(one.tasks for one in wanted),
        coming=sum(
            is_expected(node, situation, scene.demand.boot_timeout_s) for node in situation.nodes
        ),
        most=scene.most,
        least=scene.least,
        hosts=hosts,
        unready=unready,
        boot_s=min((one.pool.boot_s for one in scene.offers), default=0.0),
    )


def _packed(scene: RoundContext, wanted: Sequence[PendingShape]) -> PackingResult:
    """Put what waits where there is room: what may make the cluster grow, large needs first."""
    blocks, fit, left = scene.rooms, 0, list[tuple[PendingShape, int]]()
    in_order = sorted(wanted, key=lambda one: (not _is_ripe(one, scene.demand), _size(one.need)))
    for claim in in_order:
        done, blocks = place_any(claim.needs, claim.tasks, blocks, scene.ground)
        fit += done
        if done < claim.tasks:
            left.append((claim, claim.tasks - done))
    buffer = list[tuple[Requirement, int]]()
    for need, number in _buffer(scene):
        done, blocks = place(need, number, blocks, scene.ground)
        if done < number:
            buffer.append((need, number - done))
    return PackingResult(blocks=blocks, fit=fit, left=_possible(left, scene), buffer=tuple(buffer))


def _possible(
    left: Sequence[tuple[PendingShape, int]], scene: RoundContext
) -> tuple[tuple[PendingShape, int], ...]:
    """Return each claim with the least of its needs that new nodes could meet, if any could."""
    there = _there(scene) if any(claim.others for claim, _ in left) else ()

    def chosen(claim: PendingShape) -> PendingShape:
        if not claim.others:
            return claim
        needs = (n for n in claim.needs if not lacking(n, scene.offers, scene.ground, there))
        return replace(claim, need=next(needs, claim.need), others=())

    return tuple((chosen(claim), tasks) for claim, tasks in left)


def _impossible(scene: RoundContext, packed: PackingResult) -> Iterator[UnservedDemand]:
    """Give the jobs that no new node could run, whether or not nodes may be added now."""
    there = _there(scene) if any(claim.need.total > 1 for claim, _ in packed.left) else ()
    for claim, _ in packed.left:
        why = lacking(claim.need, scene.offers, scene.ground, there)
        yield from told_of(why, claim.jobs)


def _there(scene: RoundContext) -> tuple[tuple[str, HostRoom], ...]:
    """Return each host's room as if nothing ran there, with the pool of its node."""
    situation, own = scene.situation, Nodes(scene.situation.nodes)
    patterns = patterns_of(row.shape for row in situation.cell.waiting)
    rooms = whole_rooms(situation, instances_of(situation), scene.ground, patterns)
    return tuple((node.pool if (node := own.of_host(name)) else "", r) for name, r in rooms.items())


def _buffer(scene: RoundContext) -> list[tuple[Requirement, int]]:
    """Return what is to stay free: whole nodes, and slots."""
    own = (scene.rules.queue,)
    nodes = Requirement(is_exclusive=True, queues=own), scene.demand.spare_nodes
    return [one for one in (nodes, (Requirement(queues=own), scene.demand.spare_slots)) if one[1]]


def _is_ripe(claim: PendingShape, demand: Demand) -> bool:
    return claim.waited_s >= demand.wait_s


def _size(need: Requirement) -> tuple[object, ...]:
    """Order needs, the largest first: those that share no host, and those that need many slots."""
    spent = tuple((name, -amount) for name, amount in need.amounts)
    return not need.is_exclusive, -need.slots, -need.pieces, -len(spent), spent, need.queues


def _grown(
    plan: BalancePlan, scene: RoundContext, packed: PackingResult, wanted: Sequence[PendingShape]
) -> BalancePlan:
    """Return the plan with the nodes to add, or with what is said of none."""
    short = scene.least - plan.figures.useful
    if not packed.left and not packed.buffer and short <= 0:
        return replace(plan, verdict=DemandVerdict.ALL_FIT if wanted else DemandVerdict.NO_NEED)
    since = plan.figures.unchanged_s
    if since is not None and since < scene.demand.grow_pause_s:
        return replace(plan, verdict=DemandVerdict.NOT_STABLE)
    ripe = [one for one in packed.left if _is_ripe(one[0], scene.demand)]
    if packed.left and not ripe and not packed.buffer and short <= 0:
        return replace(plan, verdict=DemandVerdict.NOT_YET)
    plan, ripe = _patient(plan, scene, ripe, wanted)
    if (
        plan.verdict in (DemandVerdict.SOON, DemandVerdict.ELSEWHERE)
        and short <= 0
        and not packed.buffer
    ):
        return plan
    return _bought(plan, scene, packed, ripe, short)


def _patient(
    plan: BalancePlan,
    scene: RoundContext,
    ripe: list[tuple[PendingShape, int]],
    wanted: Sequence[PendingShape],
) -> tuple[BalancePlan, list[tuple[PendingShape, int]]]:
    """Leave out what is done soon enough without new nodes, here or at another cluster."""
    figures, demand = plan.figures, scene.demand
    slots = figures.slots + scene.arriving
    if ripe and demand.target_wait_s and all(_could_run(one.need, scene) for one, _ in ripe):
        slot_s, within_s = _slot_s(scene, wanted), demand.target_wait_s + figures.boot_s
        if slot_s is not None and slots:
            plan = replace(plan, figures=replace(figures, backlog_s=slot_s / slots))
            if slot_s <= slots * within_s:
                return replace(plan, verdict=DemandVerdict.SOON), []
            ripe = completion_times.first_of(ripe, slot_s / within_s - slots)
            figures = plan.figures
    rest = list[tuple[PendingShape, int]]()
    there = _elsewhere(scene)
    for claim, tasks in ripe:
        late_s = claim.waited_s - demand.wait_s - scene.rules.interval_s
        found = there.sooner(claim, figures.boot_s, late_s)
        taken = there.take(found[0], claim, tasks) if found else 0
        if taken < tasks:
            rest.append((claim, tasks - taken))
        if found and taken:
            figures = replace(figures, elsewhere=found[0], elsewhere_s=found[1])
    verdict = DemandVerdict.ELSEWHERE if ripe and not rest else plan.verdict
    return replace(plan, figures=figures, verdict=verdict), rest


def _slot_s(scene: RoundContext, wanted: Sequence[PendingShape]) -> float | None:
    """Return the seconds of one slot until all is done; None where a run time is unknown."""
    situation = scene.situation
    there = [
        instance
        for instances in instances_of(situation).values()
        for instance in instances
        if instance.is_usable
    ]
    if any(instance.used > sum(each.slots for each in instance.begun) for instance in there):
        return None  # nobody tells whose tasks have them
    begun = (each for instance in there for each in instance.begun)
    running_s = completion_times.running_slot_s(begun, situation.runtimes, situation.now)
    waiting_s = completion_times.waiting_slot_s(wanted, situation.runtimes)
    return None if running_s is None or waiting_s is None else running_s + waiting_s


def _elsewhere(scene: RoundContext) -> completion_times.TransferCapacity:
    situation = scene.situation
    rooms = away(situation, scene.ground, patterns_of(row.shape for row in situation.cell.waiting))
    return completion_times.TransferCapacity(
        situation.elsewhere, situation.elsewhere_free, rooms, scene.ground
    )


def _could_run(need: Requirement, scene: RoundContext) -> bool:
    """Say whether a host that is there has slots enough, once they are free."""
    return any(
        instance.total >= need.slots and instance.is_usable
        for instance in scene.situation.cell.instances
    )


def _bought(
    plan: BalancePlan,
    scene: RoundContext,
    packed: PackingResult,
    ripe: list[tuple[PendingShape, int]],
    short: int,
) -> BalancePlan:
    if not scene.offers:
        return _first(plan, scene, ripe, short)
    purchase = ScaleUp(
        purse=_purse(scene, plan.figures.nodes),
        blocks=packed.blocks,
        offers=scene.offers,
        ground=scene.ground,
    )
    refused, found = {refusal.job for refusal in plan.refused}, list(plan.refused)
    for claim, tasks in ripe:
        if buy(claim.need, tasks, purchase):
            jobs = [job for job in claim.jobs if job not in refused]
            found.extend(told_of(too_few(claim.need, purchase), jobs))
    for need, number in packed.buffer:
        buy(need, number, purchase)
    return _told(replace(plan, refused=tuple(found)), scene, purchase, short)


def _purse(scene: RoundContext, nodes: int) -> PurchaseLimits:
    known = scene.rules, scene.demand, scene.pools
    return purse(scene.situation, *known, scene.most, nodes, scene.least)


def _first(
    plan: BalancePlan, scene: RoundContext, ripe: list[tuple[PendingShape, int]], short: int
) -> BalancePlan:
    """Add the first node of a cluster of which nobody knows how its nodes will be."""
    if plan.figures.coming:
        return replace(plan, verdict=DemandVerdict.ON_THEIR_WAY)
    room = scene.most - plan.figures.nodes
    wanted = max(short, 1 if ripe else 0)
    verdict = DemandVerdict.BELOW_MINIMUM if short > 0 else DemandVerdict.NO_SLOTS
    return replace(
        plan, verdict=verdict if room > 0 else DemandVerdict.FULL, add=max(0, min(wanted, room))
    )


def _told(plan: BalancePlan, scene: RoundContext, purchase: ScaleUp, short: int) -> BalancePlan:
    """Return the plan of a purchase: a round adds nodes of one pool, the next one of another.

    Hosts on standby come first, and a round that wakes some adds none.
    """
    pool = next(iter(purchase.bought), None)
    bought = purchase.bought.get(pool, []) if pool is not None else []
    wake = tuple(name for name in scene.situation.standby or () if name in purchase.woken)
    if len(wake) + sum(map(len, purchase.bought.values())) < short:
        return _minimum(plan, scene, short)
    if wake:
        return replace(plan, verdict=DemandVerdict.MORE_WANTED, wake=wake)
    if pool is None:
        verdict = purchase.hindrances[0] if purchase.hindrances else DemandVerdict.NO_NODE
        if purchase.hindrances and purchase.purse.closed:
            verdict = purchase.purse.closed
        return replace(
            plan, verdict=verdict if plan.verdict is DemandVerdict.NO_NEED else plan.verdict
        )
    price = next(one.price for one in scene.offers if one.name == pool)
    return replace(
        plan,
        verdict=DemandVerdict.MORE_WANTED,
        add=len(bought),
        pool=pool,
        groups=tuple(bought) if any(bought) else (),
        figures=replace(plan.figures, price=price),
    )


def _minimum(plan: BalancePlan, scene: RoundContext, short: int) -> BalancePlan:
    """Add what is missing to the least, or say why nothing is."""
    limits = _purse(scene, plan.figures.nodes)
    for offer in scene.offers:
        number = min(short, offer.most, limits.for_price(offer.price)[0])
        if number > 0 and offer.hosts:
            return replace(plan, verdict=DemandVerdict.BELOW_MINIMUM, wake=offer.hosts[:number])
        if number > 0:
            figures = replace(plan.figures, price=offer.price)
            return replace(
                plan,
                verdict=DemandVerdict.BELOW_MINIMUM,
                add=number,
                pool=offer.name,
                figures=figures,
            )
    first = scene.offers[0]
    hindrance = limits.closed or first.hindrance or limits.for_price(first.price)[1]
    return replace(plan, verdict=DemandVerdict.BELOW_MINIMUM, hindrance=hindrance)
