"""Where campaigns' tasks wait in vain: nikita deletes them there, and none has begun since.

Slots may look free and start nothing of a campaign: its tasks may ask for what no free host has, or
for more than a quota lets its owner have. CiGri takes a point of a task's affinity away from such a
cluster (scheduler 3.2, tasks_affinity).
"""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.failures.blacklist import Pair
from gridbridge.model.campaigns.cycle_plan import CycleSituation


def in_vain(situation: CycleSituation) -> Mapping[Pair, int]:
    """Return how many tasks have waited in vain, where some have; one that runs is a good sign."""
    running = {
        (view.campaign, view.cluster) for view in situation.there if view.listed > view.waiting
    }
    waited = {
        (record.campaign, record.cluster): record.wiped_in_row for record in situation.records
    }
    return {pair: tasks for pair, tasks in waited.items() if tasks and pair not in running}
