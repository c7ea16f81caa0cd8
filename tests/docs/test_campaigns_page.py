"""The campaign pages show admission rules that work, and every state word of a task."""

import os
import re
from dataclasses import replace
from pathlib import Path

from gridbridge.campaigns.submission import site_admission_rules
from gridbridge.decisions.campaigns.admission_rule_application import apply_campaign_admission_rules
from gridbridge.model.campaigns.admission import CampaignForAdmission
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import DROPPED, OUTCOME_WORDS, SENT, WAITING
from gridbridge.model.fixed_paths import ADMISSION
from tests.docs.console import ROOT

SERVICE = (ROOT / "docs/how-to/campaign-service.md").read_text()
REFERENCE = (ROOT / "docs/reference/campaigns.md").read_text()
WISH = JdlSettingsAtCluster(exec_file="run", is_besteffort=False)
BROUGHT = CampaignForAdmission(user="alice", groups=frozenset(), tasks=9, jdl=Jdl(name="n", clusters={"beta": WISH}))


def test_the_rules_of_the_page_are_loaded_and_applied(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", SERVICE, re.MULTILINE | re.DOTALL)
    (tmp_path / "10-site.py").write_text(text)
    rules = site_admission_rules.load_site_admission_rules(str(tmp_path), os.getuid())
    slow = replace(BROUGHT.jdl, clusters={"beta": replace(WISH, walltime_s=90000)})

    assert apply_campaign_admission_rules(rules, BROUGHT).jdl.clusters["beta"].is_besteffort
    assert apply_campaign_admission_rules(rules, replace(BROUGHT, groups=frozenset({"physics"}))).fired == ()
    assert apply_campaign_admission_rules(rules, replace(BROUGHT, jdl=slow)).refusal.endswith(
        "a task may take a day at most"
    )
    assert f"`{ADMISSION}`" in SERVICE


def test_the_page_has_each_word_that_a_task_may_be_shown_with() -> None:
    """Scripts read these words."""
    words = {OUTCOME_WORDS.get(outcome, outcome.value) for outcome in TaskAttemptOutcome}
    ends = REFERENCE.partition("\n## How a task ends\n")[2].partition("\n## ")[0]
    table, _, below = ends.strip().partition("\n\n")
    shown = {row.split("|")[2].strip(" `") for row in table.splitlines()[2:]}

    assert words - {SENT} == shown
    assert [word for word in (WAITING, SENT, DROPPED) if f"`{word}`" not in below] == []
