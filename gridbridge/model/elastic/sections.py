"""What gridbridge.toml says of a cluster that grows and shrinks."""

from dataclasses import dataclass

from gridbridge.model.elastic.plan import Rules
from gridbridge.model.settings import OBJECT_NAME, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """When nodes are added to the site's own cluster, and when they are removed."""

    policy: Rules = setting(Rules.STARCLUSTER, "the rules that decide it")
    queue: str = setting("all.q", "the queue whose slots count", form=OBJECT_NAME)
    max_nodes: int = setting(
        0, "the most nodes of the cluster, with the master; 0: nothing is done", "nodes", 0, 100000
    )
    min_nodes: int = setting(1, "the least, with the master", "nodes", 0, 100000)
    add_nodes_per_iteration: int = setting(1, "the most that one round adds", "nodes", 1, 10000)
    job_wait_time_s: float = setting(
        900.0, "nodes are added when a job has waited longer", "s", 0, 2592000
    )
    kill_after_min: int = setting(
        45, "an idle node is removed from this minute of each of its hours on", "min", 0, 59
    )
    stabilization_s: float = setting(
        180.0, "nothing is done so long after the last change", "s", 0, 86400
    )
