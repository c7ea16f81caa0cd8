"""Every configuration key is described, and inherited values are filled in."""

from dataclasses import MISSING, Field, fields
from typing import Any

import pytest

from gridbridge.model.config_key_descriptions import (
    ABSOLUTE_PATH,
    ACCOUNT,
    OBJECT_NAME,
    STATE_URL,
    ConfigTextFormat,
    config_key_description,
)
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer import transfer_config_sections

KEYS = [
    pytest.param(key, id=f"{kind.__name__}.{key.name}")
    for kind in (
        SiteSection,
        ClusterSection,
        transfer_config_sections.TransferQueueSection,
        transfer_config_sections.PollerSection,
        transfer_config_sections.BreakerSection,
        transfer_config_sections.RetentionSection,
        *(rule for rule, _ in transfer_config_sections.KINDS.values()),
    )
    for key in fields(kind)
]
ALPHA = ClusterSection(qmaster_port=6444, execd_port=6445)


@pytest.mark.parametrize("key", KEYS)
def test_every_configuration_key_has_a_one_line_meaning(key: Field[Any]) -> None:
    meaning = config_key_description(key).meaning

    assert meaning
    assert meaning.isprintable()
    assert len(meaning) < 80


@pytest.mark.parametrize("key", KEYS)
def test_every_default_is_an_allowed_value(key: Field[Any]) -> None:
    known = config_key_description(key)
    if key.default is MISSING or known.inherits:
        return

    assert type(key.default) is key.type
    assert key.type not in (int, float) or known.low <= key.default <= known.high
    assert key.type is not str or known.form.holds(key.default)


@pytest.mark.parametrize(("ending", "unit"), [("_per_s", "1/s"), ("_s", "s"), ("_h", "h")], ids=["rate", "s", "h"])
def test_the_unit_in_a_key_name_is_the_unit_of_the_key(ending: str, unit: str) -> None:
    keys = [key for param in KEYS for key in param.values if key.name.endswith(ending)]
    timed = [key for key in keys if ending != "_s" or not key.name.endswith("_per_s")]

    assert {unit} == {config_key_description(key).unit for key in timed}


def test_a_cell_is_named_as_its_cluster_by_default() -> None:
    clusters = {"alpha": ALPHA, "beta": ClusterSection(qmaster_port=1, execd_port=2, cell="default")}

    policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})

    assert [cluster.cell for cluster in policy.clusters.values()] == ["alpha", "default"]


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (ABSOLUTE_PATH, ["/", "/srv/a b"], ["", "srv", "~/x", "/a\n", "/caf\u00e9"]),
        (ACCOUNT, ["gridbridge", "_g-1", "rooted"], ["", "root", "1g", "-g", "g" * 33]),
        (OBJECT_NAME, ["transfer-beta", "all.q"], ["", "@all", "a*", "a b", ".a", "#a", "a\n"]),
        (
            STATE_URL,
            ["sqlite:////a.db", "postgresql://db/grid", "postgresql://me@db:5432/grid"],
            [
                "sqlite:///a.db",
                "mysql://db/grid",
                "postgresql://me:hush@db/grid",
                "postgresql://me:hu/sh@db/grid",
                "postgresql://me@db/grid?password=hush",
            ],
        ),
    ],
    ids=["path", "account", "object name", "state"],
)
def test_a_text_format_accepts_and_refuses_texts(form: ConfigTextFormat, good: list[str], bad: list[str]) -> None:
    assert [True] * len(good) == [bool(form.holds(text)) for text in good]
    assert [False] * len(bad) == [bool(form.holds(text)) for text in bad]
