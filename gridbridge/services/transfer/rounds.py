"""What the poller's process does from its begin to its end: rounds, by the newest right file."""

import logging
import os
import pwd
import sys
import time
from collections.abc import Iterable

from gridbridge.decisions.site.reload import Stay
from gridbridge.errors import ConfigError, StateError
from gridbridge.model.places import CONFIG, LOCK
from gridbridge.model.policy import Policy
from gridbridge.services.site.configuration import Configuration, kept
from gridbridge.services.transfer.assembly import build, follow
from gridbridge.services.transfer.ledger import stay
from gridbridge.services.transfer.service import TransferService
from gridbridge.shell import lock
from gridbridge.shell.clock import Clock
from gridbridge.shell.heart import BEAT_S, Heart
from gridbridge.shell.signals import Signals
from gridbridge.state.database import Database
from gridbridge.state.database.transfers import Transfers

TROUBLE_PAUSE_S = 5.0  # after a round that failed as a whole: a full disk is not mended sooner

_log = logging.getLogger(__name__)


def run(signals: Signals) -> None:
    """Do rounds until told to stop; SystemExit when another poller does."""
    clock = Clock()
    configuration = Configuration(clock, earlier=kept(clock.now()))
    _require_account(configuration.policy)
    _start_log(configuration.policy)
    if not lock.take(LOCK):
        sys.exit("gridbridge-poller: another one runs")
    _go_on_from_the_last(configuration, clock)
    go_on(configuration, signals, Heart(LOCK), clock)
    _log.info("event=stop")
    os._exit(0)  # a thread may wait for a cluster that does not answer; nothing of it is ours


def _require_account(policy: Policy) -> None:
    """Refuse to run as another than the service: it could not read what that one writes.

    A site of embedded clusters is one person's.
    """
    account = policy.site.service_account
    runs_as = pwd.getpwuid(os.geteuid()).pw_name
    if not policy.is_embedded and runs_as != account:
        words = f'[site] service_account = "{account}": this process is {runs_as}\'s'
        raise ConfigError((f"{CONFIG}: {words}; run it as {account}",))


def _go_on_from_the_last(configuration: Configuration, clock: Clock) -> None:
    """Start with what the last service had, where the file is wrong or what is away needs that."""
    if earlier := kept(clock.now()):
        configuration.go_on_from(earlier, _away)
    configuration.tell()


def _away(policy: Policy) -> Iterable[Stay]:
    """Return what is away by the state file of a configuration."""
    try:
        database = Database.open(policy.site.state)
        try:
            return frozenset(map(stay, Transfers(database).open()))
        finally:
            database.close()
    except StateError:
        return ()  # the service tells it, if it is still its own


def go_on(configuration: Configuration, signals: Signals, heart: Heart, clock: Clock) -> None:
    """Do rounds until told to stop."""
    heart.begin()
    service, policy = build(configuration, clock), configuration.policy
    configuration.keep()
    _log.info("event=start cluster=%s queues=%s", policy.site.cluster, ",".join(policy.queues))
    while not signals.is_stopped:
        heart.beat()
        try:
            if configuration.take(signals.hung_up(), service.ledger.stays):
                put_in_force(configuration, service)
            service.round()
            if service.has_unasked():
                follow(service, service.policy)
        except StateError as error:
            service = _again(configuration, service, error, signals, heart, clock)
        _pause(configuration.policy.poller.spool_interval_s, signals, heart, clock)


def _pause(limit_s: float, signals: Signals, heart: Heart, clock: Clock) -> None:
    """Sleep so long, or until a signal comes, and show meanwhile that we live."""
    deadline = clock.steady_s() + limit_s
    while True:
        left_s = deadline - clock.steady_s()
        heart.beat()
        if signals.wait(min(max(0.0, left_s), BEAT_S)) or left_s <= BEAT_S:
            return


def put_in_force(configuration: Configuration, service: TransferService) -> None:
    """Have the service take what is new of gridbridge.toml, and show which one it has."""
    configuration.keep()
    if configuration.policy is not service.policy:
        follow(service, configuration.policy)
        _set_level(configuration.policy)
    service.views.configured(configuration.shown())


def _again(
    configuration: Configuration,
    service: TransferService,
    trouble: StateError,
    signals: Signals,
    heart: Heart,
    clock: Clock,
) -> TransferService:
    """Begin anew from the state file: what a failed round took from the spool is read again.

    The log may lie on the same full disk, so the trouble is told once more when it is over.
    """
    while not signals.is_stopped:
        service.shut_down()
        _log.error("event=trouble why=%r", str(trouble))
        _pause(TROUBLE_PAUSE_S, signals, heart, clock)
        configuration.take(signals.hung_up(), service.ledger.stays)
        heart.begin()
        try:
            service = build(configuration, clock)
            configuration.keep()
            _set_level(configuration.policy)
            service.round()
            _log.info("event=well_again after=%r", str(trouble))
            break
        except StateError as error:
            trouble = error
    return service


def _start_log(policy: Policy) -> None:
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)sZ level=%(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)
    _set_level(policy)


def _set_level(policy: Policy) -> None:
    logging.getLogger().setLevel(policy.site.log_level.upper())
