"""A site whose state file has campaigns, and the tables of that file."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON

TOKENS = count()


class CampaignSite:
    def __init__(self, folder: Path, *campaigns: Campaign) -> None:
        self.folder = folder
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.tries = TaskAttemptRows(self.database, self.campaigns)
        self.tasks = CampaignTaskRows(self.database)
        self.marks = TaskDeletionMarkRows(self.database)
        self.events = EventAndSuccessRecordRows(self.database)
        self.statistics = CampaignStatisticsRows(self.database)
        for campaign in campaigns:
            self.insert(campaign)

    @property
    def campaign(self) -> Campaign:
        return self.campaigns.find_campaign(1)

    @property
    def array(self) -> CampaignArray:
        """Return the only open array."""
        (array,) = self.campaigns.query_open_arrays()
        return array

    def insert(self, campaign: Campaign) -> int:
        """Store a campaign; return its number."""
        return self.campaigns.insert_campaign(campaign, f"token{next(TOKENS)}")

    def send(self, tasks: int = 1, job_id: int = 0, cluster: str = "beta", campaign: int = 1) -> CampaignArray:
        """Create an array of the campaign's first waiting tasks; with a job id it is a released array."""
        array = self.campaigns.create_array(campaign, cluster, tasks, NOON)
        if not job_id:
            return array
        self.campaigns.set_array_state(array, ArraySubmissionState.RELEASED, job_id)
        return replace(array, state=ArraySubmissionState.RELEASED, job_id=job_id)

    def attempts(self, array: CampaignArray | None = None) -> tuple[TaskAttempt, ...]:
        return self.campaigns.unfinished_attempts(array or self.array)

    def end(
        self, attempts: Iterable[TaskAttempt], outcome: TaskAttemptOutcome, **other: Any
    ) -> tuple[TaskAttempt, ...]:
        ended = tuple(replace(attempt, outcome=outcome, **other) for attempt in attempts)
        self.campaigns.record_attempt_ends(ended)
        return ended

    def open_event(self, code: CampaignEventCode, **other: Any) -> int:
        """Store an event of campaign 1 at beta; return the event's number."""
        values = {"kind": CampaignEventSubject.CAMPAIGN, "campaign": 1, "cluster": "beta"}
        event = CampaignEvent(code=code, **{"opened_at": NOON, "last_at": NOON} | values | other)
        self.events.store_events([event])
        return max((opened.number for opened in self.events.query_open_events()), default=0)

    def open_event_numbers(self) -> list[int]:
        return [event.number for event in self.events.query_open_events()]

    def unsent_ranges(self) -> list[tuple[int, int, int]]:
        """Return first task, last task and attempt of the waiting tasks of campaign 1."""
        return [(waiting.first, waiting.last, waiting.attempt) for waiting in self.campaigns.list_unsent_tasks(1)]
