"""A test site that accepts campaign files, with its folders and its state file."""

import hashlib
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import update

from gridbridge.campaigns.runner.campaign_intake import CampaignAndRequestIntake
from gridbridge.campaigns.runner.owner_requests import CampaignOwnerRequestHandler
from gridbridge.campaigns.store import campaign_files_of_owners, campaign_inbox
from gridbridge.campaigns.store.campaign_file_verification import NAME, CampaignFileRegister
from gridbridge.model.campaigns.admission import CampaignAdmissionRule
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignRunnerSection, NotificationsSection
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, campaign_file_name
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import CAMPAIGNS
from tests.builders.campaign_site import CampaignSite

SWEEP = Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run")})


class IntakeSite(CampaignSite):
    notifications = NotificationsSection()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.brought = folder / "campaigns"
        self.published = folder / "published"
        self.brought.mkdir()
        self.published.mkdir()
        self.rules: tuple[CampaignAdmissionRule, ...] = ()
        self.limits = CampaignRunnerSection()
        self.clock = Clock()
        self._clocks = f"{folder}/runner.clocks"
        self.restarted()

    def restarted(self) -> "IntakeSite":
        clusters = frozenset({"beta", "gamma"})
        places = (str(self.brought), str(self.published))
        rules = lambda: self.rules  # noqa: E731 - tests set them later
        known = {
            "limits": self.limits,
            "watched": self._clocks,
            "notifications": self.notifications,
            "by_api": ("gamma",),
        }
        self.intake = CampaignAndRequestIntake(self.database, clusters, self.clock, *places, rules, **known)  # type: ignore[arg-type]
        return self

    def bring(self, header: object, *parameters: str) -> str:
        """Write a campaign file with this header to the inbox, as gridsub does; return the file's token."""
        whole = header | {UNIQUE: "1"} if isinstance(header, dict) else header
        data = campaign_files_of_owners.encode_campaign_file(whole, parameters)
        return campaign_files_of_owners.write_campaign_file_to_inbox(data, str(self.brought))

    def accept(self, header: object, *parameters: str) -> str:
        """Bring a campaign file, and process the inbox; return the file's token."""
        token = self.bring(header, *parameters)
        self.intake.process_inbox_files()
        return token

    def taken(self, *parameters: str) -> str:
        return self.accept(asdict(SWEEP), *parameters)

    def answer(self, token: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.published / "taken" / token).read_text())
        return told

    def ask(self, verb: CampaignOwnerRequestVerb, number: int, task: int = 0) -> CampaignOwnerRequestReply:
        """Send a request about a campaign, process the inbox and return the reply."""
        token = campaign_files_of_owners.write_owner_request_to_inbox(verb, (number,), str(self.brought), task)
        self.intake.process_inbox_files()
        return CampaignOwnerRequestReply(self.answer(token)[str(number)])

    def request_handler(self) -> CampaignOwnerRequestHandler:
        return CampaignOwnerRequestHandler(self.database, Clock(), str(self.brought), str(self.published))

    def end_campaign(self, number: int, days: int, state: CampaignState = CampaignState.CANCELLED) -> None:
        """Record that a campaign ended so many days ago."""
        self.campaigns.set_campaign_state(number, state, datetime.now(UTC) - timedelta(days=days))

    def add_registered_file(self, data: bytes, number: int, part: int = 0) -> None:
        """Write a registered campaign file that the state file does not know."""
        (self.brought / campaign_file_name(number, part)).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        CampaignFileRegister(str(self.brought)).register_campaign_file(number, os.getuid(), digest, part)

    def files(self) -> list[str]:
        """Return the names of all files in the campaign folder, except the service's register."""
        found = (path for path in self.brought.rglob("*") if not path.is_dir())
        return sorted({str(path.relative_to(self.brought)) for path in found} - {NAME})

    @property
    def own_inbox(self) -> Path:
        return Path(campaign_inbox.make_own_inbox_folder(str(self.brought)))

    def give_away(self, number: int) -> None:
        of = CAMPAIGNS.c.number == number
        self.database.execute(update(CAMPAIGNS).where(of).values(uid=os.getuid() + 1))
