"""Whether earlier attempts of tasks live still: asked of their clusters, as the tasks' owner.

The service says that they have ended. Root believes that of a cluster that does not answer, and of
one that its own configuration has no more; but where a cluster lists such an attempt, no other one
of that task is sent (docs/decisions 0287).
"""

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


def require_ended(order: Order, ledger: Ledger, place: int) -> None:
    """Raise NotNow where a task of an array to be sent waits or runs by an earlier attempt."""
    for earlier in ledger.earlier(order.arrays[place].array, order.tasks[place]):
        number, cluster, _, _ = earlier
        if order.knows(cluster) and _lives(order, ledger.uid, earlier):
            raise NotNow(f"an earlier attempt of a task is at {cluster}, in array {number}")


def _lives(order: Order, uid: int, earlier: "Earlier") -> bool:
    number, cluster, job, places = earlier
    name = str(ArrayId(order.arrays[0].site, order.campaign, number))
    try:
        worker = Worker(uid, lambda person: _answers(order.at(cluster), person), ASKS_S)
        wanted = frozenset(places)
        return any(not wanted.isdisjoint(some) for some in _read(worker.ask(name, job or "-")))
    except (GridbridgeError, OSError):
        return False


def _answers(order: Order, person: str) -> "Answers":
    """Tell which places of an array live; of one whose id is not known whether it is there."""
    far, account = order.reached_by(person)
    adapter = arrays_of(far)

    def answer(words: list[str]) -> str:
        name, job = words
        if job == "-":
            job = adapter.find_held(far, name, account)
        living = adapter.living(far, job, (name, released_name(order.campaign))) if job else ()
        return ",".join(f"{some.start}:{some.stop}:{some.step}" for some in living)

    return answer


def _read(told: str) -> list[range]:
    return [range(*map(int, some.split(":"))) for some in told.split(",") if some]
