"""How a campaign's row is read and written."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, DatasetWish, Jdl, Type


def values_of(campaign: Campaign) -> dict[str, Any]:
    """Return the row's columns."""
    values = {field.name: getattr(campaign, field.name) for field in fields(Campaign)}
    return values | {"jdl": asdict(campaign.jdl)}


def campaign_of(row: dict[str, Any]) -> Campaign:
    """Return the campaign of a row, whose JDL may be read already."""
    jdl = row["jdl"] if isinstance(row["jdl"], Jdl) else jdl_of(row["jdl"])
    return Campaign(**row | {"state": CampaignState(row["state"]), "jdl": jdl})


def jdl_of(kept: Mapping[str, Any]) -> Jdl:
    """Return a JDL; one that an earlier version kept has fewer keys."""
    clusters = {name: AtCluster(**each) for name, each in kept["clusters"].items()}
    known = {**kept, "type": Type(kept["type"]), "outputs": tuple(kept.get("outputs", ()))}
    datasets = {name: DatasetWish(**each) for name, each in kept.get("datasets", {}).items()}
    return Jdl(**known | {"clusters": clusters, "datasets": datasets})
