"""Adds to a transfer queue's mapping rules what OAR needs: each resource needs a rule, and `-l` takes numbers."""

from gridbridge.batch.oar.oar_command_line_builders import LEVEL, WALLTIME
from gridbridge.model.transfer.request_mapping_rules import (
    ANY,
    EVERY_JOB,
    QUEUE,
    RESOURCE,
    TYPE,
    MappingRules,
    RequestMappingRule,
)
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection


def complete_mapping_rules(cluster: str, rules: MappingRules, queue: TransferQueueSection | None) -> MappingRules:
    """Return the mapping rules for an OAR server; resources without a rule are rejected."""
    oar_rules = {(RESOURCE, WALLTIME): RequestMappingRule()} | rules
    for (kind, name), rule in oar_rules.items():
        remote_name = rule.to or name
        if kind == RESOURCE and remote_name == WALLTIME:
            rule.to = remote_name  # a rule without keys would not be published, so `to` is set
        elif kind == RESOURCE and not remote_name.startswith(LEVEL):
            rule.relation = rule.relation or "="
    missing = f"[map.{cluster}.resource.NAME] has to name the remote resource"
    oar_rules[RESOURCE, ANY] = RequestMappingRule(reject=missing)
    return oar_rules | (_queue_and_type_rules(queue) if queue else {})


def _queue_and_type_rules(queue: TransferQueueSection) -> MappingRules:
    """Return the rules that send the jobs of a transfer queue to its OAR queue, with its OAR types."""
    types = queue.oar_type.split()
    rules = {(TYPE, str(number)): RequestMappingRule(to=oar_type) for number, oar_type in enumerate(types)}
    if queue.oar_queue:
        rules[QUEUE, EVERY_JOB] = RequestMappingRule(to=queue.oar_queue)
    return rules
