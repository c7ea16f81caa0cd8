"""What owners ask to cancel, where no runner is there to take it: kills wait for no program."""

from gridbridge.model.campaigns.request import Verb
from gridbridge.model.places import CAMPAIGNS, PUBLISHED, RUNNER_LOCK
from gridbridge.services.campaigns.requests import Requests
from gridbridge.shell import lock
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_files
from gridbridge.state.database import Database


class Cancelling:
    """Takes requests to cancel campaigns; all others are left to the runner."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        runners: str = RUNNER_LOCK,
    ) -> None:
        self._requests = Requests(database, clock, folder, published)
        self._folder = folder
        self._published = published
        self._runners = runners

    def take(self) -> int:
        """Do what is asked, unless a runner is there; return how many requests that were."""
        listed = [name for name in campaign_files.names(self._folder) if _is_request(name)]
        if not listed:
            return 0
        with lock.Held(self._runners) as is_ours:
            return self._do(listed) if is_ours else 0

    def _do(self, listed: list[str]) -> int:
        asked = campaign_files.asked(listed, self._folder)
        kills = [one for one in asked if one.verb is Verb.CANCEL]
        for one in kills:
            campaign_files.answer(one.token, self._requests.do(one), self._published)
            campaign_files.done(one.token, self._folder)
        return len(kills)


def _is_request(name: str) -> bool:
    return name.startswith((campaign_files.ASKED, campaign_files.TAKEN))
