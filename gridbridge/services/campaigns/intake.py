"""Takes new campaigns in: each file becomes a campaign once, and its owner is told the number."""

import logging
from collections.abc import Callable

from gridbridge.config import admission
from gridbridge.decisions.campaigns import admission as rules
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.admission import Candidate, Rule
from gridbridge.model.campaigns.campaign import Attempt, Campaign, CampaignState
from gridbridge.model.campaigns.jdl import Jdl, Type
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.services.journal import decode
from gridbridge.shell import host
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_files, tasks_shown
from gridbridge.state.campaign_files import Answer, Asked, NewFile, Verb
from gridbridge.state.database.campaign_tasks import CampaignTasks
from gridbridge.state.database.campaigns import Campaigns

AS_IT_IS = {
    CampaignState.IN_TREATMENT: Answer.NOT_PAUSED,
    CampaignState.PAUSED: Answer.PAUSED,
    CampaignState.TERMINATED: Answer.TERMINATED,
    CampaignState.CANCELLED: Answer.CANCELLED,
}
NEXT = {
    (CampaignState.IN_TREATMENT, Verb.PAUSE): CampaignState.PAUSED,
    (CampaignState.PAUSED, Verb.RESUME): CampaignState.IN_TREATMENT,
    (CampaignState.IN_TREATMENT, Verb.CANCEL): CampaignState.CANCELLED,
    (CampaignState.PAUSED, Verb.CANCEL): CampaignState.CANCELLED,
}

_log = logging.getLogger(__name__)


class Intake:
    """What takes files in."""

    def __init__(
        self,
        campaigns: Campaigns,
        clusters: frozenset[str],
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        rules: Callable[[], tuple[Rule, ...]] = admission.load,
    ) -> None:
        self._campaigns = campaigns
        self._tasks = CampaignTasks(campaigns.database)
        self._touched: list[Attempt] = []
        self._clusters = clusters
        self._clock = clock
        self._folder = folder
        self._published = published
        self._rules = rules

    def take(self) -> int:
        """Take in what is new; return how many campaigns that made."""
        return sum(self._take(token, found) for token, found in campaign_files.new(self._folder))

    def answer(self) -> int:
        """Do what owners ask about their campaigns; return how many asked."""
        asked = tuple(campaign_files.asked(self._folder))
        for one in asked:
            told = {number: self._do(one, number) for number in one.campaigns}
            campaign_files.answer(one.token, told, self._published)
            campaign_files.done(one.token, self._folder)
        return len(asked)

    def _do(self, asked: Asked, number: int) -> Answer:
        """Do what is asked about one campaign, if its owner asks."""
        found = self._campaigns.find(number)
        if not found or found.state is CampaignState.PURGED:
            return Answer.UNKNOWN
        if found.uid != asked.uid:
            return Answer.NOT_THEIRS
        if asked.verb is Verb.PURGE:
            return self._purge(found)
        if asked.verb is Verb.CANCEL_TASK:
            return self._cancel_task(found, asked.task)
        state = NEXT.get((found.state, asked.verb))
        if not state:
            return AS_IT_IS[found.state]
        self._campaigns.is_now(number, state)
        if state is CampaignState.CANCELLED:
            self._campaigns.drop_waiting(number)
        return Answer.DONE

    def _purge(self, found: Campaign) -> Answer:
        """Remove what is there of a campaign that has ended, then forget it."""
        if found.number in (one.number for one in self._campaigns.unfinished()):
            return Answer.NOT_ENDED
        campaign_files.purge(found.number, self._folder)
        tasks_shown.remove(found.number, self._published)
        self._tasks.purge(found.number)
        return Answer.DONE

    def _cancel_task(self, found: Campaign, task: int) -> Answer:
        """End a task that was not sent yet."""
        if not found.state.is_alive:
            return AS_IT_IS[found.state]
        if not 0 <= task < found.tasks:
            return Answer.NO_TASK
        ended = self._tasks.cancel(found.number, task)
        if not ended:
            return Answer.NOT_WAITING
        self._touched.append(ended)
        return Answer.DONE

    def touched(self) -> tuple[Attempt, ...]:
        """Return the attempts that owners ended since the last call."""
        found, self._touched = tuple(self._touched), []
        return found

    def _take(self, token: str, found: NewFile | str) -> bool:
        """Keep a campaign, then its number on the file, then the answer; each may be repeated."""
        known = self._campaigns.of_token(token)
        if known:
            number = known.number
        else:
            made = found if isinstance(found, str) else self._campaign(found)
            if isinstance(made, str):
                self._refuse(token, made)
                return False
            number = self._campaigns.add(made, token)
        campaign_files.number(token, number, self._folder)
        campaign_files.answer(token, {"campaign": number}, self._published)
        return not known

    def _refuse(self, token: str, problem: str) -> None:
        _log.warning("event=no_campaign token=%s why=%r", token, problem)
        campaign_files.answer(token, {"refused": problem}, self._published)
        campaign_files.refuse(token, self._folder)

    def _campaign(self, found: NewFile) -> Campaign | str:
        """Return a file's campaign, or what is wrong: any program may have written it."""
        try:
            jdl = decode(found.header, Jdl)
        except Exception as error:  # whatever somebody wrote there
            return f"not what gridsub writes: {error!r:.200}"
        unknown = sorted(jdl.clusters.keys() - self._clusters)
        if unknown:
            known = ", ".join(sorted(self._clusters))
            return f"no cluster {', '.join(unknown)} here; the clusters are {known}"
        if not (found.tasks and jdl.clusters):
            return "no task, or no cluster"
        if problem := self._unsettled(found, jdl):
            return problem
        is_test = jdl.type is Type.TEST
        return Campaign(
            number=0,
            uid=found.uid,
            owner=found.owner,
            state=CampaignState.IN_TREATMENT,
            submitted_at=self._clock.now(),
            tasks=min(found.tasks, len(jdl.clusters)) if is_test else found.tasks,
            digest=found.digest,
            jdl=jdl,
        )

    def _unsettled(self, found: NewFile, jdl: Jdl) -> str:
        """Say what the site's rules have against a campaign: gridsub applied them before."""
        groups = host.groups_of(found.owner)
        candidate = Candidate(user=found.owner, groups=groups, tasks=found.tasks, jdl=jdl)
        try:
            return rules.unsettled(self._rules(), candidate)
        except ConfigError as error:
            return f"the site's admission rules are wrong: {error}"
