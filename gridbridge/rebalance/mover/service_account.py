"""What rebalancing does is done as the service account, by whoever may become that."""

from gridbridge.batch import as_user_call
from gridbridge.batch.clusters import open_sessions
from gridbridge.config import policy_file
from gridbridge.model.policy import Policy
from gridbridge.shell.account import become


def policy_at(path: str) -> Policy:
    """Become the service account, and return the configuration."""
    policy = policy_file.load(path)
    if not policy.is_personal:
        become(policy.site.service_account)
    as_user_call.reach(policy)
    return policy


def policy_for_plan(path: str) -> Policy:
    """Return it as well, and have clients log in while the caller loads what looks and decides."""
    policy = policy_at(path)
    open_sessions(policy)
    return policy
