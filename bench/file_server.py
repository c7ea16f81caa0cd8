"""The load of a simulated file server under a campaign's tasks: by gridbridge's rule, and by on and off.

The load follows the number of running tasks as Linux's load average does, as a first-order response with a delay,
and each report of the load has noise. With on and off a stress script closes the cluster while the load is above its
target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from bench.bag import NOON
from bench.simulated import CYCLE_S, Cluster, Ours
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.file_server_load import FileServerRule, FileServerSituation

RULE = FileServerRule(storage="home", clusters=("beta",), has_load=True, target=10.0)
SLOTS, SETTLED_S, END_S = 300, 1800, 5400


@dataclass(slots=True)
class FileServer:
    """A file server, second by second."""

    per_task: float  # load of a running task
    delay_s: int = 15
    time_constant_s: float = 60.0  # of Linux's load average of one minute
    noise: float = 0.05  # standard deviation of a report, relative to the load
    others: float = 0.0  # load by other users
    random: Random = field(default_factory=lambda: Random(1))
    load: float = 0.0
    _running: list[int] = field(default_factory=list)

    def go_on(self, running: int) -> None:
        """Advance the time by a second in which some tasks run."""
        self._running.append(running)
        tasks = self._running[-1 - self.delay_s] if len(self._running) > self.delay_s else 0
        self.load += (self.per_task * tasks + self.others - self.load) / self.time_constant_s

    def report(self) -> float:
        return max(0.0, self.load * self.random.gauss(1, self.noise))


SERVERS = {  # each with the mean run time of its tasks in seconds
    "short tasks": (FileServer(0.1), 60),
    "heavy tasks": (FileServer(0.2), 60),
    "light tasks": (FileServer(0.05), 300),
    "long tasks": (FileServer(0.1), 600),
    "other users": (FileServer(0.1, others=4), 60),
    "a long delay": (FileServer(0.1, delay_s=45), 120),
}


class OursAtFileServer(Ours):
    """The cycle of gridbridge-runner with the load of a file server."""

    def __init__(self, clusters: Sequence[Cluster], server: FileServer, rule: FileServerRule | None) -> None:
        """`rule` None: on and off."""
        super().__init__(clusters)
        self._server, self._rule, self._cycles = server, rule, 0

    def _seen(self, clusters: Sequence[Cluster], left: int) -> CampaignCycleSituation:
        seen, load = super()._seen(clusters, left), self._server.report()
        if self._rule is None:
            is_stressed = load >= RULE.target
            return replace(seen, room={n: replace(room, is_stressed=is_stressed) for n, room in seen.room.items()})
        self._cycles += 1
        servers = FileServerSituation(
            rules=(self._rule,),
            loads={self._rule.storage: load},
            limits=self.decided.server_limits if self.decided else (),
        )
        return replace(seen, servers=servers, at=NOON + timedelta(seconds=CYCLE_S * self._cycles))


def loads_by_second(server: FileServer, task_s: float, rule: FileServerRule | None) -> list[float]:
    """Return the load in each second, for tasks with exponential run times of mean `task_s`."""
    cluster, lengths, loads = Cluster("beta", SLOTS), Random(2), list[float]()
    ours = OursAtFileServer([cluster], server, rule)
    for second in range(END_S):
        if second % CYCLE_S == 0:
            tasks = ours.sends([cluster], left=100_000).get("beta", 0)
            cluster.waiting.extend(lengths.expovariate(1 / task_s) for _ in range(tasks))
        cluster.go_on(second, second + 1)
        server.go_on(len(cluster.running))
        loads.append(server.load)
    return loads


def deviations_of_servers(rule: FileServerRule | None) -> Iterator[float]:
    """Yield the largest deviation of each kind of server and task; `rule` None: on and off."""
    for server, task_s in SERVERS.values():
        yield largest_deviation(loads_by_second(replace(server), task_s, rule))


def largest_deviation(loads: Sequence[float]) -> float:
    """Return the largest relative deviation of the load from its target after settling."""
    return max(abs(load / RULE.target - 1) for load in loads[SETTLED_S:])
