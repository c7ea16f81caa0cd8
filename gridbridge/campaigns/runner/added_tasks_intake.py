"""Adds tasks to unfinished campaigns from the files that the owners submitted."""

from collections.abc import Callable
from dataclasses import replace

from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_and_attempt_tables import AddedTaskRows, CampaignRows
from gridbridge.campaigns.store.campaign_file_verification import CampaignFileRegister
from gridbridge.campaigns.store.campaign_files_of_owners import NewCampaignOrAddedTasksFile
from gridbridge.campaigns.submission.jdl_value_parsers import MOST_TASKS
from gridbridge.model.campaigns.campaign import AdditionalCampaignTasks, Campaign, CampaignState
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.shell import safe_files
from gridbridge.state.state_file import StateFile

MOST_PARTS = 1000  # at most this many files of added tasks per campaign, because root lists all files for each array

ANOTHER = "another file has the same token"

# returns why the site's admission rules refuse the added tasks; empty if the rules accept the tasks
Judge = Callable[[NewCampaignOrAddedTasksFile, Campaign], str]


class AddedTasksIntake:
    """Accepts files that add tasks to an existing campaign, each file once."""

    def __init__(
        self, database: StateFile, judge: Judge, register: CampaignFileRegister, folder: str = CAMPAIGNS
    ) -> None:
        self._campaigns = CampaignRows(database)
        self._parts = AddedTaskRows(database, self._campaigns)
        self._judge = judge
        self._given = register
        self._folder = folder
        self._grown: set[int] = set()

    def take_campaigns_with_added_tasks(self) -> frozenset[int]:
        grown, self._grown = frozenset(self._grown), set()
        return grown

    def store_added_tasks(self, new_file: NewCampaignOrAddedTasksFile) -> AdditionalCampaignTasks | str:
        """Store a file of added tasks as a part of the campaign; return the part, or the reason of a refusal."""
        campaign = self._campaigns.find_campaign(new_file.extended_campaign_number or 0)
        if part := self._parts.find_added_tasks_by_file_token(new_file.token):
            is_same = campaign and (campaign.uid, part.digest) == (new_file.uid, new_file.digest)
            return part if is_same else ANOTHER
        if not campaign or (problem := self._refusal_of_added_tasks(new_file, campaign)):
            return problem if campaign else f"no campaign {new_file.extended_campaign_number}"
        return self._store_added_part(new_file, campaign)

    def restore_lost_added_tasks(self) -> tuple[int, ...]:
        """Store again the added tasks that a restored state file lacks; return their campaigns' numbers."""
        for part, uid in self._parts.all_added_tasks():
            self._given.register_campaign_file(part.campaign, uid, part.digest, part.number)
        recovered: dict[int, None] = {}
        for campaign in self._campaigns.all_campaigns():
            while new_file := self._read_lost_file_of_added_tasks(campaign):
                self._store_added_part(new_file, campaign)
                campaign = self._campaigns.find_campaign(campaign.number) or campaign
                recovered[campaign.number] = None
        return tuple(recovered)

    def _read_lost_file_of_added_tasks(self, campaign: Campaign) -> NewCampaignOrAddedTasksFile | None:
        part = self._parts.last_part_number(campaign.number) + 1
        if campaign.state in (CampaignState.CANCELLED, CampaignState.PURGED):
            return None
        new_file = campaign_files_of_owners.read_numbered_campaign_file(campaign.number, self._folder, part)
        if not new_file or (new_file.extended_campaign_number, new_file.uid) != (campaign.number, campaign.uid):
            return None
        is_given = self._given.has_campaign_file(campaign.number, new_file.uid, new_file.digest, part)
        return replace(new_file, token=safe_files.random_file_name()) if is_given else None

    def _store_added_part(self, new_file: NewCampaignOrAddedTasksFile, campaign: Campaign) -> AdditionalCampaignTasks:
        part = AdditionalCampaignTasks(
            campaign=campaign.number,
            number=self._parts.last_part_number(campaign.number) + 1,
            tasks=new_file.tasks,
            digest=new_file.digest,
        )
        self._parts.insert_added_tasks(campaign, part, new_file.token)
        self._grown.add(campaign.number)
        return part

    def _refusal_of_added_tasks(self, new_file: NewCampaignOrAddedTasksFile, campaign: Campaign) -> str:
        name = f"campaign {campaign.number}"
        if campaign.state is CampaignState.PURGED:
            return f"no {name}"
        if campaign.uid != new_file.uid:
            return f"{name} is owned by another user"
        if not campaign.state.is_alive:
            return f"{name} is {campaign.state}; submit the tasks as a new campaign"
        if campaign.jdl.type is CampaignType.TEST:
            return f"{name} is a test campaign, which sends one task to each cluster"
        if any(not predecessor.condition.is_of_whole_campaign for predecessor in campaign.jdl.after):
            return f"{name} must have as many tasks as its predecessor; submit the tasks as a new campaign"
        if not new_file.tasks or campaign.tasks + new_file.tasks > MOST_TASKS:
            return f"{name} has {number_with_noun(campaign.tasks, 'task')}; expected more, {MOST_TASKS} in all at most"
        if self._parts.last_part_number(campaign.number) >= MOST_PARTS:
            return f"{name} got tasks {MOST_PARTS} times; submit the tasks as a new campaign"
        return self._judge(new_file, campaign)
