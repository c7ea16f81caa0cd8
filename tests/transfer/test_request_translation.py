"""A home request is translated into the names of a remote cluster."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.job_request_parser import parse_job_request, parse_parallel_request
from gridbridge.errors import UnmappableRequest
from gridbridge.model.job_request import JobSpec
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster, encode_offered_names
from gridbridge.model.transfer.request_mapping_rules import (
    ANY,
    PE,
    PROJECT,
    QUEUE,
    RESOURCE,
    RequestMapping,
    RequestMappingRule,
)
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.state.published_file_formats import offered_names_path
from gridbridge.transfer.request_translation import translate_request_for_cluster, translate_request_for_queue

XML = Path(__file__).with_name("parallel_job.xml").read_bytes()
CONTEXT = (
    b"<JB_context><VA_variable>gridbridge_queues</VA_variable><VA_value>transfer-beta long.q</VA_value></JB_context>"
)
NAMES = {(RESOURCE, "h_rt"): "walltime", (PE, "mpi"): "orte", (PROJECT, ANY): "foreign", (QUEUE, "long.q"): "batch.q"}
REASONS = {(RESOURCE, "gpu"): "none", (QUEUE, ANY): "there is batch.q only"}
RULES = RequestMapping(
    {name: RequestMappingRule(to=to) for name, to in NAMES.items()}
    | {name: RequestMappingRule(reject=reason) for name, reason in REASONS.items()}
)


def asking(more: bytes = b"", slots: int = 1) -> JobSpec:
    request = parse_job_request(XML.replace(b"{more}", more))
    return JobSpec(transfer="gb", request=request, pe="mpi" if slots > 1 else "", slots=slots)


def test_translation_covers_resources_and_project_and_queues_and_slots() -> None:
    there, left_out = translate_request_for_cluster(asking(slots=3), RULES, None, "beta", ("transfer-beta",))

    assert (there.request.hard, there.request.soft) == ((("walltime", "60"),), ())
    assert (there.request.project, there.request.targets) == ("foreign", "batch.q")
    assert (there.pe, there.slots) == ("orte", 3)
    assert left_out == ("soft request gpu=1 left out: beta has no gpu: none",)


def test_a_pinned_job_is_translated_with_its_own_queue_list_and_stays_unchanged() -> None:
    pinned = asking(CONTEXT)
    pinned = pinned.with_changes(request=pinned.request.with_changes(queues="transfer-beta"))
    hard, project = pinned.request.hard, pinned.request.project
    there, _ = translate_request_for_cluster(pinned, RULES, None, "beta", ("transfer-beta",))

    assert there.request.targets == "batch.q"
    assert (pinned.request.hard, pinned.request.project) == (hard, project)


def test_the_offered_names_are_compared_with_the_translated_request() -> None:
    known = NamesOfferedByCluster(
        resource=frozenset({"walltime"}), pe=frozenset({"orte"}), project=frozenset({"foreign"})
    )
    with pytest.raises(UnmappableRequest, match=r"^beta has no queue batch\.q$"):
        translate_request_for_cluster(asking(slots=3), RULES, known, "beta", ("transfer-beta",))


@pytest.mark.parametrize(
    ("spread", "groups"), [("", ()), ("2", ((2, 2),)), ("round_robin", ((3, 1), (1, 1))), ("fill_up", ((0, 4),))]
)
def test_slots_are_spread_over_the_nodes_that_the_cluster_offers(
    spread: str, groups: tuple[tuple[int, int], ...]
) -> None:
    everything = frozenset({ANY})
    known = NamesOfferedByCluster(
        resource=everything, pe=everything, project=everything, queue=everything, node=frozenset({"n1", "n2", "n3"})
    )
    rules = RequestMapping({**RULES.rules, (PE, "mpi"): RequestMappingRule(spread=spread)})
    there, _ = translate_request_for_cluster(asking(slots=4), rules, known, "gamma", ("transfer-beta",))

    assert (there.pe, there.slots, there.request.groups) == ("mpi", 4, groups)


def test_the_published_offered_names_are_used_for_translation(tmp_path: Path) -> None:
    route = TransferRoute(remote="beta")
    for folder in ("vocabularies", "queues"):
        (tmp_path / folder).mkdir()
    (tmp_path / "queues/transfer-beta").touch()
    request = parse_job_request(XML.replace(b"gpu", b"disk").partition(b"<JB_project>")[0])
    serial = JobSpec(transfer="gb", request=request)
    before, _ = translate_request_for_queue("transfer-beta", route, serial, str(tmp_path))
    words = NamesOfferedByCluster(resource=frozenset({"h_rt"}))
    Path(offered_names_path("beta", str(tmp_path))).write_bytes(encode_offered_names(words))
    after, left_out = translate_request_for_queue("transfer-beta", route, serial, str(tmp_path))

    assert before.request.soft == (("disk", "1"),)
    assert (after.request.hard, after.request.soft) == ((("h_rt", "60"),), ())
    assert left_out == ("soft request disk=1 left out: beta has no resource disk",)


def test_a_parallel_request_counts_the_largest_requested_number_of_slots() -> None:
    assert parse_parallel_request(XML) == ("mpi", 16)
