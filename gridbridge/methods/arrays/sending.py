"""send-arrays: intended, submitted held, recorded, released, in this order and in one call.

An array that is in root's ledger under an id is not submitted again. One whose answer was lost is
looked up by its name. Only what the ledger has is released, so whenever this program is killed,
nothing runs that the next call does not know.
"""

import time

from gridbridge.errors import AlreadySubmitted, GridbridgeError
from gridbridge.methods import owner
from gridbridge.methods.arrays.content import Content
from gridbridge.methods.arrays.earlier import require_ended
from gridbridge.methods.arrays.job import Site
from gridbridge.methods.arrays.order import Order, is_number
from gridbridge.methods.arrays.worker import Gone, Worker
from gridbridge.methods.owner import NoOwner
from gridbridge.model.campaigns.names import ArrayId
from gridbridge.state.ledger import Ledger
from gridbridge.state.verified_campaign import VerifiedCampaign

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridbridge.methods.arrays.worker import Answers

BEGINS_S = 20.0  # no array is begun later: it has to be released before the service's patience ends
SUBMIT, RELEASE, RELEASE_OLD = "submit", "release", "release-old"


def send(order: Order, ledger: Ledger) -> "Iterator[str]":
    """Give a line for each array that was begun: a status, its id if it is known, and why.

    The others may be asked for again, as if they had not been.
    """
    ids = [ledger.job(one.array) for one in order.arrays]
    content = None if all(ids) else _read(order, ledger)
    owner.require_person(order.config, order.file, ledger.uid)
    sending = Sending(order, ledger, content)
    sent = list(sending.submitted())
    sending.release(sent)
    return (one.line() for one in sent)


def _read(order: Order, ledger: Ledger) -> Content:
    brought = VerifiedCampaign(order.campaign)
    owner.require_person(order.config, brought.file, brought.uid)
    brought.note(ledger)
    return Content(order, brought, ledger)


class Sent:
    """An array, and how far it came."""

    def __init__(self, array: ArrayId) -> None:
        self.array = array
        self.job = ""
        self.is_new = False  # nothing else can bear its name
        self.error: Exception | None = None

    def line(self) -> str:
        """Tell it to the service."""
        if not self.error:
            return f"0 {self.job or 0} "
        return f"{owner.status_of(self.error)} {self.job or 0} {owner.in_a_line(self.error)}"


class Sending:
    """One call's arrays; root notes each step."""

    def __init__(self, order: Order, ledger: Ledger, content: Content | None) -> None:
        self._order = order
        self._ledger = ledger
        self._content = content
        self._worker = Worker(ledger.uid, self._begin)

    def submitted(self) -> "Iterator[Sent]":
        """Submit them one after another, as long as there is time and they are the ledger's."""
        latest = time.monotonic() + BEGINS_S
        for place, array in enumerate(self._order.arrays):
            one = Sent(array)
            try:
                self._submit(one, place)
            except (GridbridgeError, OSError) as error:
                one.error = error
            yield one
            if (
                isinstance(one.error, Gone | AlreadySubmitted | NoOwner)
                or time.monotonic() > latest
            ):
                return

    def _submit(self, one: Sent, place: int) -> None:
        """Intend it and have it submitted held; its id is in the ledger before it is told."""
        number, ledger, order = one.array.array, self._ledger, self._order
        one.job = ledger.job(number)
        if not (one.job or order.is_of_copies):
            require_ended(order, ledger, place)
        if not one.job:
            owner.require_account(ledger.uid)  # an array that nobody can submit is not intended
        ledger.intend(number, order.cluster, order.tasks[place], order.is_of_copies)
        if one.job:
            return
        one.is_new = not ledger.was_repeated(number)
        job = self._worker.ask(SUBMIT, str(place), str(int(one.is_new)))
        if not is_number(job):
            raise GridbridgeError(f"{job[:40]!r} is no id")
        ledger.submitted(number, job)
        one.job = job

    def release(self, sent: list[Sent]) -> None:
        """Let their tasks start; the new ones all at once."""
        ready = [one for one in sent if one.job and not one.error]
        new = [one for one in ready if one.is_new]
        if new:
            self._do(new, RELEASE, *(one.job for one in new))
        for one in (one for one in ready if not one.is_new):
            repeated = int(self._ledger.was_repeated(one.array.array))
            self._do([one], RELEASE_OLD, str(one.array), one.job, str(repeated))

    def _do(self, sent: list[Sent], *words: str) -> None:
        try:
            self._worker.ask(*words)
        except (GridbridgeError, OSError) as error:
            for one in sent:
                one.error = error

    def _begin(self, person: str) -> "Answers":
        """Return what answers requests as the owner."""
        site = Site(self._order, person)

        def answer(words: list[str]) -> str:
            verb, *rest = words
            if verb == SUBMIT:
                return self._submit_at(site, int(rest[0]), person, is_new=rest[1] == "1")
            if verb == RELEASE:
                site.release(rest)
            else:
                site.act(rest[0], rest[1], is_repeated=rest[2] == "1")
            return ""

        return answer

    def _submit_at(self, site: Site, place: int, person: str, is_new: bool) -> str:
        """Adopt the array that an earlier call submitted, else submit it."""
        array = self._order.arrays[place]
        if not is_new and (found := site.find(str(array))):
            return found
        assert self._content
        return site.submit(self._content.spec(array, self._content.tasks(place), person))
