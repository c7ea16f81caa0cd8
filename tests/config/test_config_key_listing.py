"""The listed keys, values and defaults are those of the configuration file."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gridbridge.config import configuration_file
from gridbridge.config.config_key_listing import ConfigKeyListing, list_config_keys
from gridbridge.config.section_parsing import format_toml_key
from tests.builders.configurations import queue_text, site_text

SAMPLE = Path(__file__).parents[2] / "conf/gridbridge.toml"
OAR = '[cluster.gamma]\nkind = "oar"\n'


def listed(text: str) -> list[ConfigKeyListing]:
    return [*list_config_keys(configuration_file.parse_configuration("gridbridge.toml", text.encode()))]


def flat(tables: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each key with its title; a key may itself be a table of texts, as `users` is."""
    for name, value in tables.items():
        is_section = isinstance(value, dict) and name not in ("users", "arguments", "asks", "standard_request")
        is_section = is_section and not name.endswith("clusters")
        title = f"{prefix}{format_toml_key(name)}"
        yield from flat(value, f"{title}.") if is_section else ((title, value),)


def test_the_listing_has_every_key_of_the_sample_with_its_value() -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    every = re.sub(r"^#(?=\w+ = )", "", text, flags=re.MULTILINE)

    keys = listed(text)

    assert {f"{key.section}.{key.key}": key.value for key in keys if key.value is not None} == dict(
        flat(tomllib.loads(every))
    )
    assert {f"{key.section}.{key.key}" for key in keys if not key.is_default} == {*dict(flat(tomllib.loads(text)))}


def test_keys_that_depend_on_the_kind_of_cluster_count_as_defaults() -> None:
    differing = {f"{key.section}.{key.key}" for key in listed(site_text("alpha") + OAR) if not key.is_default}

    ports = {f"cluster.alpha.{daemon}_port" for daemon in ("qmaster", "execd")}
    assert differing == {"site.cluster", "cluster.gamma.kind"} | ports


def test_a_section_that_the_site_lacks_is_listed_with_its_keys_and_no_value() -> None:
    titles = {key.section for key in listed(site_text("alpha")) if key.value is None}

    assert {"queue.NAME", "pool.NAME", "map.CLUSTER.resource.NAME", "map.CLUSTER.pe.NAME"} <= titles
    queues = [key for key in listed(site_text("alpha", "beta") + queue_text("beta")) if key.section.startswith("queue")]
    assert {key.section for key in queues} == {"queue.transfer-beta"}
    assert next(key for key in queues if key.key == "slots").unit == "slots"
