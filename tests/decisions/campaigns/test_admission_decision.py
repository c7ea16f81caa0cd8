"""A site's admission rules accept, change or refuse a campaign, and each refusal has a reason."""

from dataclasses import replace

import pytest

from gridbridge.decisions.campaigns.admission_rule_application import (
    apply_campaign_admission_rules,
    explain_admission_violation,
)
from gridbridge.model.campaigns.admission import (
    AdmissionRefusal,
    AdmissionRuleChanges,
    CampaignAdmissionRule,
    CampaignForAdmission,
    Judge,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster

NORMAL = JdlSettingsAtCluster(exec_file="run", is_besteffort=False)
SWEEP = Jdl(name="sweep", clusters={"beta": NORMAL, "gamma": NORMAL})


def best_effort(candidate: CampaignForAdmission) -> Jdl | None:
    if "physics" in candidate.groups:
        return None
    clusters = candidate.jdl.clusters.items()
    changed = {name: replace(each, is_besteffort=True) for name, each in clusters}
    return replace(candidate.jdl, clusters=changed)


def small(candidate: CampaignForAdmission) -> AdmissionRefusal | None:
    return AdmissionRefusal(reason="at most 10 tasks") if candidate.tasks > 10 else None


def of_best_effort_alone(candidate: CampaignForAdmission) -> AdmissionRefusal | None:
    clusters = candidate.jdl.clusters.values()
    return None if all(each.is_besteffort for each in clusters) else AdmissionRefusal(reason="no")


def fails(candidate: CampaignForAdmission) -> Jdl | None:
    raise KeyError(candidate.user)


def rules(*judges: Judge) -> tuple[CampaignAdmissionRule, ...]:
    return tuple(CampaignAdmissionRule(name=getattr(each, "__name__", "?"), judge=each) for each in judges)


def candidate(tasks: int = 5, *groups: str) -> CampaignForAdmission:
    return CampaignForAdmission(user="alice", groups=frozenset(groups), tasks=tasks, jdl=SWEEP)


def test_each_admission_rule_judges_the_campaign_as_changed_by_earlier_rules() -> None:
    told = apply_campaign_admission_rules(rules(best_effort, of_best_effort_alone, small), candidate())

    assert told.refusal == ""
    assert [each.is_besteffort for each in told.jdl.clusters.values()] == [True, True]
    assert told.fired == (
        AdmissionRuleChanges(
            rule="best_effort",
            changes=("clusters.beta.is_besteffort: False -> True", "clusters.gamma.is_besteffort: False -> True"),
        ),
    )


@pytest.mark.parametrize(
    ("judges", "who", "why"),
    [
        ((small,), candidate(11), "small: at most 10 tasks"),
        ((of_best_effort_alone, best_effort), candidate(), "of_best_effort_alone: no"),
        ((fails,), candidate(), "fails: the rule failed, so tell your administrator: KeyError"),
        ((lambda _: 7,), candidate(), "<lambda>: the rule returned 7, so tell your administrator"),
    ],
)
def test_a_refusal_names_the_admission_rule_that_refused(
    judges: tuple[Judge, ...], who: CampaignForAdmission, why: str
) -> None:
    assert apply_campaign_admission_rules(rules(*judges), who).refusal.startswith(why)


def test_a_refusal_names_the_admission_rules_that_removed_all_clusters() -> None:
    def no_beta(candidate: CampaignForAdmission) -> Jdl:
        return _without(candidate.jdl, "beta")

    def no_gamma(candidate: CampaignForAdmission) -> Jdl:
        return _without(candidate.jdl, "gamma")

    both = rules(no_beta, best_effort, no_gamma)

    assert apply_campaign_admission_rules(rules(no_beta), candidate()).refusal == ""
    told = "the site's rules remove all clusters: no_beta removes beta; no_gamma removes gamma"
    assert (
        apply_campaign_admission_rules(both, candidate()).refusal
        == explain_admission_violation(both, candidate())
        == told
    )


def _without(jdl: Jdl, cluster: str) -> Jdl:
    clusters = {name: one for name, one in jdl.clusters.items() if name != cluster}
    return replace(jdl, clusters=clusters)


def test_a_campaign_violates_only_admission_rules_that_gridsub_has_not_applied() -> None:
    raw = candidate()
    changed = replace(raw, jdl=apply_campaign_admission_rules(rules(best_effort), raw).jdl)

    assert explain_admission_violation(rules(best_effort), changed) == ""
    assert explain_admission_violation(rules(best_effort), candidate(5, "physics")) == ""
    assert explain_admission_violation(rules(best_effort), raw).startswith(
        "best_effort would still change the campaign: "
    )
    assert explain_admission_violation(rules(small), candidate(11)) == "small: at most 10 tasks"
