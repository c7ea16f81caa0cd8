"""Carries out owners' requests to cancel campaigns while no runner runs."""

import logging

from gridbridge.campaigns.runner.owner_requests import Do, OwnerRequestHandler, answer_owner_request
from gridbridge.campaigns.store import campaign_files
from gridbridge.errors import describe_error
from gridbridge.model.campaigns.owner_request import OwnerRequest, OwnerVerb
from gridbridge.model.places import CAMPAIGNS, PUBLISHED, RUNNER_LOCK
from gridbridge.shell import poller_lock
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

_log = logging.getLogger(__name__)


class CampaignCancelHandler:
    """Takes requests to cancel campaigns; leaves all other requests to the runner."""

    def __init__(
        self,
        database: StateFile,
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        runners: str = RUNNER_LOCK,
    ) -> None:
        self._requests = OwnerRequestHandler(database, clock, folder, published)
        self._folder = folder
        self._published = published
        self._runners = runners

    def take(self) -> int:
        """Carry out cancel requests unless a runner runs; return how many were carried out."""
        names = campaign_files.list_inbox_files(self._folder)
        listed = campaign_files.list_request_files(names, OwnerVerb.CANCEL, self._folder)
        if not listed:
            return 0
        with poller_lock.MomentaryPollerLock(self._runners) as is_ours:
            requests = campaign_files.take_owner_requests(listed, self._folder) if is_ours else ()
            return sum(map(self._answer, requests))

    def _answer(self, request: OwnerRequest) -> bool:
        """Answer a cancel request; leave a faulty request to the runner."""
        does: dict[OwnerVerb, Do] = {OwnerVerb.CANCEL: self._requests.do}
        try:
            return answer_owner_request(request, does, self._folder, self._published)
        except Exception as error:
            _log.warning(
                "event=not_taken_now token=%s why=%r", request.token, describe_error(error)
            )
            return False
