"""The transfer service: how it begins and ends, and what frames each of its rounds.

Nothing is lost by its death: a message leaves the spool only after the state file has it, and
every act is safe to repeat. What a round does is in round/.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gridbridge.decisions.transfer import dropped_clusters
from gridbridge.model.ids import parse_transfer
from gridbridge.services import cycle
from gridbridge.services.transfer.parts import Parts
from gridbridge.services.transfer.round.order import Order

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TransferService(Parts):
    """What the poller's process does its rounds with."""

    def load(self) -> None:
        """Take up what an earlier process left in the state file."""
        self.clock.step()  # before this: what is loaded is not moved by it
        self.acts.hide_names()
        self.ledger.load()
        self.unheard_ends.load(self.clock.now())
        self.late_guards.load(self.clock.now())
        self.usage_records.load()
        self.recalls.load()
        self.claims.load()
        for one in self.ledger.ended.values():
            self.acts.tidy(one)
        self.show_routes()

    def show_routes(self) -> None:
        """Show where each queue leads, and tell of the clusters that transfers are still at."""
        used = {(one.queue, one.remote) for one in self.ledger.all()}
        self.mail.allow(used)  # their routes stay where starters read them
        self.views.routes(frozenset(queue for queue, _ in used))
        self.views.asked(self.observers)
        for cluster in sorted(self.worlds.dropped()):
            _log.warning(
                "event=dropped cluster=%s why=%r", cluster, dropped_clusters.sentence(cluster)
            )

    def round(self) -> None:
        """Do one round by itself."""
        with self.turn() as order:
            cycle.once(order, _log.debug)

    @contextmanager
    def turn(self) -> Iterator[Order]:
        """Keep all that a round changes or nothing, and then send what it led to."""
        self._keep_time()
        with self.ledger.transaction():
            yield self.order
        self.mail.put_away()
        self.upkeep.send()
        for observer in self.observers.values():
            observer.ask_if_due(self.wanted)
        self.usage_records.look_if_due()

    def _keep_time(self) -> None:
        """Keep every duration though the clock was set; set back, no answer would be fresh."""
        if step := self.clock.step():
            _log.warning("event=clock_set by_s=%+.0f", step.total_seconds())
            self.ledger.rewrite()
            self.breakers.begin_anew()
            self.suspensions.forget()
        self.worlds.notice_pause()

    def has_unasked(self) -> bool:
        """Say whether a configured cluster has open transfers, and nobody asks it.

        It was left alone when the last queue to it was taken out, before their starters spoke.
        """
        return bool(self.ledger.clusters() & self.policy.clusters.keys() - self.observers.keys())

    def wanted(self) -> frozenset[int]:
        """Return the job ids, local and remote, that a snapshot must keep."""
        watched = (*self.ledger.all(), *self.ledger.ended.values())
        ids = {one.remote_id for one in watched} | {
            parse_transfer(one.name).job for one in self.ledger.all()
        }
        others = self.unheard_ends.jobs() | self.breakers.jobs() | self.late_guards.jobs()
        return frozenset(ids | others | self.mail.unproved.jobs())

    def shut_down(self) -> None:
        """Give back what is held of the machine: files, threads, programs. May be repeated."""
        self.database.close()
        self.workers.dismiss()
        self.usage_records.dismiss()
        for observer in self.observers.values():
            observer.dismiss()
        for push in self.pushes.values():
            push.stop()
