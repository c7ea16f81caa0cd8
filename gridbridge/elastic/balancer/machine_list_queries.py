"""Queries each pool's machine list once; run with CONFIG, prints each pool's failure as JSON."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from gridbridge.config import configuration_file
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.provider_protocol_and_validation import MachineLister
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts

AT_ONCE = 16


def may_query_providers() -> bool:
    """Say whether this account may call the providers as the balancer does."""
    return local_host_facts.uid_of_account(BALANCE_ACCOUNT) in (0, os.geteuid())


def query_machine_list_failures(policy: Policy) -> dict[str, str]:
    """Query all providers; return each pool's failure as text, which is empty for a complete list."""
    makers = provider_registry.make_machine_providers_by_pool(policy)
    with ThreadPoolExecutor(AT_ONCE, "provider") as threads:
        return dict(zip(makers, threads.map(_why_machine_list_query_fails, makers.values()), strict=True))


def _why_machine_list_query_fails(provider: MachineLister) -> str:
    try:
        provider.list_machines()
    except GridbridgeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    print(json.dumps(query_machine_list_failures(configuration_file.load_configuration(sys.argv[1]))))  # noqa: T201 - for the check
