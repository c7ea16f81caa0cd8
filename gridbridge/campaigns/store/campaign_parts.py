"""The table of tasks that owners added to their campaigns.

Each file of added tasks is one part; its tasks follow all earlier tasks of the campaign.
"""

from dataclasses import asdict, fields

from sqlalchemy import bindparam, delete, func, insert, select, update

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.predictions import FORECASTS
from gridbridge.model.campaigns.campaign import AddedTasks, Campaign, CampaignState, WaitingTasks
from gridbridge.state.database.campaign_tables import CAMPAIGNS, PARTS
from gridbridge.state.database.transaction import StateFile

_BY_TOKEN = select(*(PARTS.c[field.name] for field in fields(AddedTasks))).where(
    PARTS.c.token == bindparam("token")
)
_ALL = select(*(PARTS.c[field.name] for field in fields(AddedTasks)), CAMPAIGNS.c.uid).join(
    CAMPAIGNS, CAMPAIGNS.c.number == PARTS.c.campaign
)
_OF_PERSON = (
    select(CAMPAIGNS.c.number, PARTS.c.number.label("part"))
    .outerjoin(PARTS, CAMPAIGNS.c.number == PARTS.c.campaign)
    .where(CAMPAIGNS.c.uid == bindparam("uid"), CAMPAIGNS.c.state != CampaignState.PURGED)
)
_LAST_PART = select(func.max(PARTS.c.number).label("number")).where(
    PARTS.c.campaign == bindparam("campaign")
)


class AddedTaskPartRows:
    """Reads and writes the table of added tasks."""

    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def of_token(self, token: str) -> AddedTasks | None:
        """Return the part that a file with this token added; None if there is none."""
        rows = self._database.rows(_BY_TOKEN, token=token)
        return next((AddedTasks(**row) for row in map(dict, rows)), None)

    def all(self) -> tuple[tuple[AddedTasks, int], ...]:
        """Return every part with the uid of its campaign's owner."""
        rows = (dict(row) for row in self._database.rows(_ALL))
        return tuple((AddedTasks(**row), uid) for row in rows for uid in (row.pop("uid"),))

    def of_person(self, uid: int) -> tuple[tuple[int, int], ...]:
        """Return a person's unpurged campaigns and parts; part 0 is the first file."""
        rows = self._database.rows(_OF_PERSON, uid=uid)
        parts = ((row["number"], part) for row in rows for part in (0, row["part"] or 0))
        return tuple(dict.fromkeys(parts))

    def last(self, campaign: int) -> int:
        """Return the highest part number of a campaign; 0 if nothing was added."""
        (row,) = self._database.rows(_LAST_PART, campaign=campaign)
        return int(row["number"] or 0)

    def add(self, campaign: Campaign, part: AddedTasks, token: str) -> None:
        """Store a part and queue its tasks; the old forecast counted fewer tasks and is deleted."""
        first, this = campaign.tasks, CAMPAIGNS.c.number == campaign.number
        with self._database.transaction():
            self._database.execute(insert(PARTS), asdict(part) | {"token": token})
            more = {"tasks": CAMPAIGNS.c.tasks + part.tasks}
            self._database.execute(update(CAMPAIGNS).where(this).values(**more))
            waiting = WaitingTasks(first=first, last=first + part.tasks - 1)
            self._campaigns.wait_again(campaign.number, waiting)
            of = FORECASTS.c.campaign == campaign.number
            self._database.execute(delete(FORECASTS).where(of))
