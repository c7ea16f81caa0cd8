"""What a cluster's section may say, by the kind of its batch system: a line each in OF_KIND."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.config.mistakes import Table, kind_name
from gridbridge.model.cluster import MAX_PORT, ClusterKind, PushKind

A_PORT = f"a whole number, 1 to {MAX_PORT}"
NEEDS_PORTS = dict.fromkeys(("qmaster_port", "execd_port"), A_PORT)
OF_CELLS = ("root", "cell", *NEEDS_PORTS)  # keys that no other kind has
NO_FOLDER = {"folder": "only an embedded one has it"}
NO_PUSH = "none: its jobs see the spool"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfKind:
    """What goes with a kind in [cluster.NAME], and how requests are translated for it."""

    needs: Mapping[str, str]  # keys that have to be there, and what stands behind them
    lacks: Mapping[str, str]  # keys that can't be there, and why
    pushes: Mapping[PushKind, str]  # ways to push ends that it lacks, and those it has
    has_claims: bool = True  # it may be silent for a time
    stands_alone: bool = False  # with clusters of its own kind only, which are one person's
    asks_by_rule: bool = False  # a resource is a property or a level of OAR's, as its rule says
    has_environments: bool = False  # parallel environments place the slots of a job


OF_KIND = {
    ClusterKind.GRIDENGINE: OfKind(
        needs=NEEDS_PORTS,
        lacks=NO_FOLDER,
        pushes={PushKind.OAR: "none or qevent"},
        has_environments=True,
    ),
    ClusterKind.OAR: OfKind(
        needs={},
        lacks=dict.fromkeys(
            (*OF_CELLS, "spool_shared", "remote_spool_dir"), "it is of Grid Engine alone"
        )
        | NO_FOLDER,
        pushes={PushKind.QEVENT: "none, or oar by ssh"},
        asks_by_rule=True,
    ),
    ClusterKind.EMBEDDED: OfKind(
        needs={"folder": "the absolute path of the folder that the cluster is"},
        lacks=dict.fromkeys((*OF_CELLS, "ssh", "users", "accounting"), "it has none"),
        pushes={PushKind.QEVENT: NO_PUSH, PushKind.OAR: NO_PUSH},
        has_claims=False,
        stands_alone=True,
    ),
}


def of_kind(cluster: Table) -> OfKind:
    """Return what goes with a cluster's kind; an unknown one is told elsewhere."""
    kind = kind_name(cluster)
    return OF_KIND[ClusterKind(kind) if kind in list(ClusterKind) else ClusterKind.GRIDENGINE]
