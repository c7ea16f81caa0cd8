"""Takes parts in: what an owner adds to a campaign that goes on, each file once."""

from collections.abc import Callable
from dataclasses import replace

from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.store.campaign_files import NewFile
from gridbridge.campaigns.store.campaign_parts import CampaignParts
from gridbridge.campaigns.store.campaign_register import CampaignRegister
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.submission.jdl_values import MOST_TASKS
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, TaskBatch
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.places import CAMPAIGNS
from gridbridge.model.status_report import count
from gridbridge.shell import files
from gridbridge.state.database import StateFile

MOST_PARTS = 1000  # of a campaign: root looks through them for each array

ANOTHER = "another file came by this name"

Judge = Callable[[NewFile, Campaign], str]  # what a site's rules have against so many tasks


class PartIntake:
    """What takes them in."""

    def __init__(
        self, database: StateFile, judge: Judge, given: CampaignRegister, folder: str = CAMPAIGNS
    ) -> None:
        self._campaigns = CampaignRows(database)
        self._parts = CampaignParts(database, self._campaigns)
        self._judge = judge
        self._given = given
        self._folder = folder
        self._grown: set[int] = set()

    def grown(self) -> frozenset[int]:
        """Return the campaigns that got tasks since the last call."""
        found, self._grown = frozenset(self._grown), set()
        return found

    def keep(self, found: NewFile) -> TaskBatch | str:
        """Keep a part, unless it is kept already, or return what is wrong with it."""
        campaign = self._campaigns.find(found.adds_to or 0)
        if known := self._parts.of_token(found.token):
            is_same = campaign and (campaign.uid, known.digest) == (found.uid, found.digest)
            return known if is_same else ANOTHER
        if not campaign or (problem := self._problem(found, campaign)):
            return problem if campaign else f"no campaign {found.adds_to}"
        return self._add(found, campaign)

    def recover(self) -> tuple[int, ...]:
        """Keep parts that a state file which was restored has forgotten; return whose they are."""
        for part, uid in self._parts.all():
            self._given.note(part.campaign, uid, part.digest, part.number)
        return tuple(one.number for one in self._campaigns.all() if self._recover(one))

    def _recover(self, campaign: Campaign) -> bool:
        is_known = True
        while found := self._forgotten(campaign):
            campaign = self._campaigns.find(self._add(found, campaign).campaign) or campaign
            is_known = False
        return not is_known

    def _forgotten(self, campaign: Campaign) -> NewFile | None:
        """Return the file of a campaign's next part, if that is there."""
        part = self._parts.last(campaign.number) + 1
        if campaign.state in (CampaignState.CANCELLED, CampaignState.PURGED):
            return None
        found = campaign_files.numbered(campaign.number, self._folder, part)
        if not found or (found.adds_to, found.uid) != (campaign.number, campaign.uid):
            return None
        is_given = self._given.has(campaign.number, found.uid, found.digest, part)
        return replace(found, token=files.random_name()) if is_given else None

    def _add(self, found: NewFile, campaign: Campaign) -> TaskBatch:
        part = TaskBatch(
            campaign=campaign.number,
            number=self._parts.last(campaign.number) + 1,
            tasks=found.tasks,
            digest=found.digest,
        )
        self._parts.add(campaign, part, found.token)
        self._grown.add(campaign.number)
        return part

    def _problem(self, found: NewFile, campaign: Campaign) -> str:
        """Say why a campaign gets no tasks by this file; empty when it does."""
        name = f"campaign {campaign.number}"
        if campaign.state is CampaignState.PURGED:
            return f"no {name}"
        if campaign.uid != found.uid:
            return f"{name} is another's"
        if not campaign.state.is_alive:
            return f"{name} is {campaign.state}; submit the rest as another one"
        if campaign.jdl.type is CampaignType.TEST:
            return f"{name} is a test, which sends one task to each cluster"
        if not found.tasks or campaign.tasks + found.tasks > MOST_TASKS:
            return f"{name} has {count(campaign.tasks, 'task')}; 1 to {MOST_TASKS} in all"
        if self._parts.last(campaign.number) >= MOST_PARTS:
            return f"{name} was added to {MOST_PARTS} times; submit the rest as another one"
        return self._judge(found, campaign)
