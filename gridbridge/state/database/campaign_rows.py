"""How a campaign's row is read and written."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Jdl, Type


def values_of(campaign: Campaign) -> dict[str, Any]:
    """Return the row's columns."""
    values = {field.name: getattr(campaign, field.name) for field in fields(Campaign)}
    return values | {"jdl": asdict(campaign.jdl)}


def campaign_of(row: dict[str, Any]) -> Campaign:
    """Return the campaign of a row."""
    return Campaign(**row | {"state": CampaignState(row["state"]), "jdl": _jdl(row["jdl"])})


def _jdl(kept: Mapping[str, Any]) -> Jdl:
    """Return a JDL; one that an earlier version kept has fewer keys."""
    clusters = {name: AtCluster(**each) for name, each in kept["clusters"].items()}
    known = {**kept, "type": Type(kept["type"]), "outputs": tuple(kept.get("outputs", ()))}
    return Jdl(**known | {"clusters": clusters})
