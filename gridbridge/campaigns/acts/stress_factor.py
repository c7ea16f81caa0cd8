"""Asks a site's own scripts how stressed each cluster is (stress_factor of CiGri)."""

import logging
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from gridbridge.errors import CommandFailed
from gridbridge.model.campaigns.campaign_sections import CampaignsAt
from gridbridge.shell.runner import run

TIMEOUT_S = 10.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

_log = logging.getLogger(__name__)


def ask(clusters: Mapping[str, CampaignsAt]) -> dict[str, float]:
    """Return what the scripts say, all asked at once; a cluster whose script fails is infinite.

    Those without a script are left out.
    """
    scripts = {
        name: section.stress_script for name, section in clusters.items() if section.stress_script
    }
    with ThreadPoolExecutor(max_workers=max(1, len(scripts))) as threads:
        factors = threads.map(_ask, scripts.values(), scripts)
        return dict(zip(scripts, factors, strict=True))


def _ask(script: str, cluster: str) -> float:
    try:
        result = run((script, cluster), ENVIRONMENT, TIMEOUT_S).checked()
    except CommandFailed as error:
        why = str(error)
    else:
        with suppress(ValueError):
            factor = float(result.stdout)
            if not math.isnan(factor):
                return factor
        why = CommandFailed(result.argv, result.status, result.stdout, result.stderr).reason
        why = f"it told no number: {why}"
    _log.warning("event=no_stress cluster=%s script=%s why=%r", cluster, script, why)
    return math.inf
