"""Whether earlier attempts of tasks live still: asked of their clusters, as the tasks' owner.

The service says that they have ended. Root believes that of a cluster that does not answer, and of
one that its own configuration has no more; but where a cluster lists such an attempt, no other one
of that task is sent (docs/decisions 0287).
"""

import time

from gridbridge.batch import arrays_of
from gridbridge.errors import GridbridgeError
from gridbridge.methods.arrays.order import Order
from gridbridge.methods.arrays.worker import Worker
from gridbridge.methods.owner import NotNow
from gridbridge.model.campaigns.names import ArrayId, released_name
from gridbridge.state.ledger import Ledger

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.methods.arrays.worker import Answers
    from gridbridge.state.ledger import Earlier

ASKS_S = 10.0  # a cluster that does not answer must not use up the time for submissions
ALL_ASK_S = 20.0  # nor must several
NO_ID = "-"


def require_ended(order: Order, ledger: Ledger, place: int) -> None:
    """Raise NotNow where a task of an array to be sent waits or runs by an earlier attempt."""
    latest = time.monotonic() + ALL_ASK_S
    at: dict[str, list[Earlier]] = {}
    for earlier in ledger.earlier(order.arrays[place].array, order.tasks[place]):
        at.setdefault(earlier[1], []).append(earlier)
    for cluster, some in at.items():
        limit_s = min(ASKS_S, latest - time.monotonic())
        if order.knows(cluster) and limit_s > 0:
            _require_ended_at(order.at(cluster), ledger.uid, some, limit_s)


def _require_ended_at(order: Order, uid: int, earlier: "list[Earlier]", limit_s: float) -> None:
    """Ask one cluster about all of them by one question."""
    asked = [f"{number}={job or NO_ID}" for number, _, job, _ in earlier]
    try:
        worker = Worker(uid, lambda person: _answers(order, person), limit_s)
        living = _read(worker.ask(*asked))
    except (GridbridgeError, OSError, ValueError):
        return
    for number, cluster, _, places in earlier:
        if any(_meet(places, some) for some in living.get(str(number), ())):
            raise NotNow(f"an earlier attempt of a task is at {cluster}, in array {number}")


def _answers(order: Order, person: str) -> "Answers":
    """Tell which places of arrays live; one whose id is not known is looked for by its name."""
    far, account = order.reached_by(person)
    adapter = arrays_of(far)

    def answer(words: list[str]) -> str:
        jobs: dict[str, str] = {}
        names: dict[str, str] = {}
        for word in words:
            number, job = word.split("=")
            name = str(ArrayId(order.arrays[0].site, order.campaign, int(number)))
            job = adapter.find_held(far, name, account) if job == NO_ID else job
            if job:
                jobs[number], names[job] = job, name
        living = adapter.living(far, names, released_name(order.campaign)) if names else {}
        return " ".join(f"{number}={_told(living[job])}" for number, job in jobs.items())

    return answer


def _told(places: tuple[range, ...]) -> str:
    return ",".join(f"{some.start}:{some.stop}:{some.step}" for some in places)


def _read(told: str) -> dict[str, list[range]]:
    found = {}
    for word in told.split():
        number, _, places = word.partition("=")
        found[number] = [_range(some) for some in places.split(",") if some]
    return found


def _range(told: str) -> range:
    begin, end, step = map(int, told.split(":"))
    return range(begin, end, step)


def _meet(places: list[int], living: range) -> bool:
    """Say whether they have a place in common, at the cost of the shorter."""
    if len(places) < len(living):
        return any(place in living for place in places)
    return not set(places).isdisjoint(living)
