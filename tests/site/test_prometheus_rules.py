"""The rules file and the dashboard are valid for Prometheus, and each alert fires for its fault alone (promtool)."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.console import ROOT
from tests.packages import unpack

pytestmark = pytest.mark.root

GOLDEN = ROOT / "tests/golden/metrics.prom"
RULES = ROOT / "conf/prometheus/gridbridge.rules.yml"
DASHBOARD = ROOT / "conf/grafana/gridbridge.json"
NAME = re.compile(r"gridbridge_[a-z0-9_]+")
LOOKED_S = 7200  # Prometheus's clock at the look; the series begin at 0
SEEN = str(LOOKED_S - 10)
# values of a site without a fault, where the golden file has another
WELL = {
    "gridbridge_balance_nodes": "0",
    "gridbridge_balance_seen_timestamp_seconds": SEEN,
    "gridbridge_campaign_cycle_timestamp_seconds": SEEN,
    "gridbridge_campaign_events": "0",
    "gridbridge_rebalance_late": "0",
    "gridbridge_service_seen_timestamp_seconds": SEEN,
    "gridbridge_transfers_missing": "0",
}
FAULTS = {
    "GridbridgePollerSilent": {"gridbridge_service_seen_timestamp_seconds": "7000"},
    "GridbridgeStorageFull": {"gridbridge_storage_full": "1"},
    "GridbridgeConfigurationRefused": {"gridbridge_configuration_refused": "1"},
    "GridbridgeClusterSilent": {"gridbridge_cluster_up": "0"},
    "GridbridgeQueueClosed": {"gridbridge_queue_open": "0"},
    "GridbridgeTransfersMissing": {"gridbridge_transfers_missing": "2"},
    "GridbridgeRunnerSilent": {"gridbridge_campaign_cycle_timestamp_seconds": "6500"},
    "GridbridgeCampaignEvents": {"gridbridge_campaign_events": "1"},
    "GridbridgeBalancerBlind": {"gridbridge_balance_seen_timestamp_seconds": "6500"},
    "GridbridgeNodesDoNotJoin": {"gridbridge_balance_nodes_failed_total": "0+1x120"},
    "GridbridgeNodeStays": {"gridbridge_balance_nodes": "1"},
    "GridbridgeClusterAtMaximum": {"gridbridge_balance_hosts": "9"},
    "GridbridgeRebalanceLate": {"gridbridge_rebalance_late": "1"},
    "GridbridgePublishedUnreadable": {"gridbridge_published_readable": "0"},
}
DRAINED = {"gridbridge_queue_open": "0", "gridbridge_cluster_drained": "1"}


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("prometheus"), "prometheus") / "usr/bin/promtool"


def run(promtool: Path, *words: object, stdin: str = "") -> tuple[int, str]:
    done = subprocess.run([promtool, *words], input=stdin, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def series(values: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the golden file's series with these constant values, for two hours."""
    for family in text_string_to_metric_families(GOLDEN.read_text()):
        for one in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
            shown = values.get(one.name, WELL.get(one.name, f"{one.value:g}"))
            yield {"series": f"{one.name}{{{labels}}}", "values": shown if "x" in shown else f"{shown}x120"}


def looked(values: dict[str, str], firing: set[str]) -> dict[str, Any]:
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(firing)]
    query = 'max by (alertname) (ALERTS{alertstate="firing"})'
    asked = {"expr": query, "eval_time": f"{LOOKED_S}s", "exp_samples": samples}
    return {"interval": "1m", "input_series": [*series(values)], "promql_expr_test": [asked]}


def test_each_alert_fires_for_its_fault_alone(promtool: Path, tmp_path: Path) -> None:
    tests = [looked(values, {alert}) for alert, values in FAULTS.items()]
    tests += [looked({}, set()), looked(DRAINED, set())]
    path = tmp_path / "tests.yml"  # JSON is YAML
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))

    assert run(promtool, "test", "rules", path) == (0, "")
    assert set(re.findall("alert: (.+)", RULES.read_text())) == FAULTS.keys()


def test_the_rules_are_valid_and_ask_for_exposed_metrics(promtool: Path) -> None:
    names = {one.name for family in text_string_to_metric_families(GOLDEN.read_text()) for one in family.samples}

    assert run(promtool, "check", "rules", RULES) == (0, "")
    assert set(NAME.findall(RULES.read_text())) - names == set()


def test_each_query_of_the_dashboard_is_valid(promtool: Path, tmp_path: Path) -> None:
    board = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [{"record": f"panel:{place}", "expr": query} for place, query in enumerate(queries)]
    path = tmp_path / "board.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))

    assert len(rules) > 20
    assert run(promtool, "check", "rules", path) == (0, "")


def test_the_metrics_follow_prometheus_conventions(promtool: Path) -> None:
    assert run(promtool, "check", "metrics", stdin=GOLDEN.read_text()) == (0, "")
