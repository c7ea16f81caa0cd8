"""Switches a rebalancing program to the service account and loads its configuration."""

from gridbridge.batch import privileged_helper_calls
from gridbridge.batch.configured_cluster_access_and_routes import log_in_to_ssh_clusters
from gridbridge.config import configuration_file
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.program_startup import switch_process_to_account


def load_policy_as_service_account(path: str) -> Policy:
    """Switch this process to the service account, and return the configuration."""
    policy = configuration_file.load_configuration(path)
    if not policy.is_single_user_site:
        switch_process_to_account(policy.site.service_account)
    privileged_helper_calls.choose_sudo_or_direct_user_call(policy)
    return policy


def load_policy_begin_ssh_logins(path: str) -> Policy:
    """Switch to the service account, begin ssh logins in the background, and return the configuration."""
    policy = load_policy_as_service_account(path)
    log_in_to_ssh_clusters(policy)
    return policy
