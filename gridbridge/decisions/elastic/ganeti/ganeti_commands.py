"""The moves of a squeeze as jobs, and all of it as commands of Ganeti's."""

from collections.abc import Sequence

from gridbridge.model.elastic.ganeti_cluster import (
    GanetiCluster,
    GanetiInstanceMove,
    GanetiSqueezeAction,
    GanetiSqueezePlan,
    InstanceMoveKind,
)
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO


def group_moves_into_job_sets(
    moves: Sequence[GanetiInstanceMove],
) -> list[list[GanetiInstanceMove]]:
    """Return what can be done side by side: moves in a row that concern no node twice.

    As in hbal, the last set is as large as can be, then the one before it.
    """
    sets: list[list[GanetiInstanceMove]] = []
    touched: set[int] = set()
    for move in reversed(moves):
        if not sets or touched & move.nodes:
            sets.insert(0, [])
            touched = set()
        sets[0].insert(0, move)
        touched |= move.nodes
    return sets


def ganeti_shell_commands(plan: GanetiSqueezePlan, before: GanetiCluster) -> str:
    """Return the lines of sh that do what was decided; `check` is whoever runs them."""
    if plan.way is GanetiSqueezeAction.NOTHING:
        return "echo Nothing to do"
    names = before.aliases
    nodes = [names[before.nodes[at].name] for at in plan.nodes]
    moving = _move_commands(plan, before)
    if plan.way is GanetiSqueezeAction.ONLINE:
        power = "".join(f"  gnt-node power -f on {node}\n" for node in nodes)
        return f"echo Power Commands\n{power}{moving}"
    tagging = "".join(f"  gnt-node add-tags {node} {STANDBY_AUTO}\n" for node in nodes)
    power = "".join(f"  gnt-node power -f off {node}\n" for node in nodes)
    return f"{moving}\necho Tagging Commands\n{tagging}\necho Power Commands\n{power}"


def _move_commands(plan: GanetiSqueezePlan, before: GanetiCluster) -> str:
    names = before.aliases
    nodes = [names[node.name] for node in before.nodes]
    instances = [
        (instance.name, "migrate" if instance.status.is_up else "failover")
        for instance in before.instances
    ]
    lines: list[str] = []
    for number, jobs in enumerate(group_moves_into_job_sets(plan.moves), 1):
        lines += ["", f"echo jobset {number}, {len(jobs)} jobs"]
        for job, move in enumerate(jobs, 1):
            lines += [f"  echo job {number}/{job}", "  check"]
            name, verb = instances[move.instance]
            target = "" if move.target < 0 else nodes[move.target]
            lines += [
                f"  gnt-instance {words}"
                for words in _instance_commands(move.kind, name, verb, target)
            ]
    return "".join(f"{line}\n" for line in lines)


def _instance_commands(
    kind: InstanceMoveKind, name: str, verb: str, target: str
) -> tuple[str, ...]:
    over = f"{verb} -f {name}"
    copy = f"replace-disks -n {target} {name}"
    return {
        InstanceMoveKind.FAILOVER: (over,),
        InstanceMoveKind.TO_ANY: (f"{verb} -f -n {target} {name}",),
        InstanceMoveKind.REPLACE_PRIMARY: (over, copy, over),
        InstanceMoveKind.REPLACE_SECONDARY: (copy,),
        InstanceMoveKind.REPLACE_AND_FAILOVER: (copy, over),
        InstanceMoveKind.FAILOVER_AND_REPLACE: (over, copy),
    }[kind]
