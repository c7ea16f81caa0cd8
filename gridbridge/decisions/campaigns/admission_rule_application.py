"""Apply a site's admission rules to each submitted campaign (CiGri scheduler specification, admission rules)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from gridbridge.model.campaigns.admission import (
    AdmissionRefusal,
    AdmissionRuleChanges,
    CampaignAdmissionResult,
    CampaignAdmissionRule,
    CampaignForAdmission,
)
from gridbridge.model.campaigns.jdl import Jdl


def apply_campaign_admission_rules(
    rules: Sequence[CampaignAdmissionRule], candidate: CampaignForAdmission
) -> CampaignAdmissionResult:
    """Apply admission rules until a rule refuses or fails; a campaign without clusters is also refused."""
    jdl, fired, removals = candidate.jdl, list[AdmissionRuleChanges](), list[str]()
    for rule in rules:
        answer = _call_admission_rule(rule, replace(candidate, jdl=jdl))
        if isinstance(answer, AdmissionRefusal):
            return CampaignAdmissionResult(jdl=jdl, fired=tuple(fired), refusal=f"{rule.name}: {answer.reason}")
        if answer is not None and answer != jdl:
            fired.append(AdmissionRuleChanges(rule=rule.name, changes=tuple(_list_jdl_changes(jdl, answer))))
            if removed := sorted(jdl.clusters.keys() - answer.clusters.keys()):
                removals.append(f"{rule.name} removes {', '.join(removed)}")
            jdl = answer
    is_nowhere = bool(removals) and not jdl.clusters
    refusal = f"the site's rules remove all clusters: {'; '.join(removals)}" if is_nowhere else ""
    return CampaignAdmissionResult(jdl=jdl, fired=tuple(fired), refusal=refusal)


def explain_admission_violation(rules: Sequence[CampaignAdmissionRule], candidate: CampaignForAdmission) -> str:
    admitted = apply_campaign_admission_rules(rules, candidate)
    if admitted.refusal or not admitted.fired:
        return admitted.refusal
    first = admitted.fired[0]
    return (
        f"{first.rule} would still change the campaign: {', '.join(first.changes)};"
        " gridsub applies all rules before the submission, so this rule is faulty if you used gridsub"
    )


def _list_jdl_changes(before: Jdl, after: Jdl) -> Iterator[str]:
    old, new = dict(_flatten_jdl_table(asdict(before))), dict(_flatten_jdl_table(asdict(after)))
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield f"{key}: {old.get(key)!r} -> {new.get(key)!r}"


def _call_admission_rule(rule: CampaignAdmissionRule, candidate: CampaignForAdmission) -> Jdl | AdmissionRefusal | None:
    try:
        answer = rule.judge(candidate)
    except (Exception, SystemExit) as error:  # a site's rule may raise any exception
        return AdmissionRefusal(reason=f"the rule failed, so tell your administrator: {error!r:.200}")
    if answer is None or isinstance(answer, Jdl | AdmissionRefusal):
        return answer
    return AdmissionRefusal(reason=f"the rule returned {answer!r:.40}, so tell your administrator")


def _flatten_jdl_table(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten_jdl_table(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
