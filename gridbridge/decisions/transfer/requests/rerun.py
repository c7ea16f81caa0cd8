"""Whether a job whose end nobody saw runs again at home if its request leaves that open (-r).

Then its queue decides (queue_conf(5), rerun). A transfer queue has TRUE, so that a job can be
adopted; therefore the queues count in which the job could have run at home.
"""

from collections.abc import Mapping

from gridbridge.model.transfer.guard import Pairs, could_take, leaves

YES, NO = "yes", "no"


def of_queues(hard: Pairs, queues: str, own: Mapping[str, str]) -> str:
    """Return the policy for a job; `own` is the `rerun` of each queue that is no transfer queue.

    One FALSE is enough, even for some hosts only. A job that could have run in none of them does
    not run again either: that is Grid Engine's default.
    """
    says = [rerun for name, rerun in own.items() if could_take(queues, name)]
    may = says and not leaves(hard) and not any("FALSE" in setting.upper() for setting in says)
    return YES if may else NO
