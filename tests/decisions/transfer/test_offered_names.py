"""What a cluster knows of a request, by the words that it last told."""

import pytest

from gridbridge.decisions.transfer.request_mapping import MappableJobRequest, drop_unoffered_soft_requests
from gridbridge.errors import UnmappableRequest
from gridbridge.model.names_offered_by_cluster import ANY, NamesOfferedByCluster

KNOWN = NamesOfferedByCluster(
    resource=frozenset({"h_rt", "mem_free", "mf"}),
    pe=frozenset({"mpi8", "mpi16", "smp"}),
    project=frozenset({"chem"}),
    queue=frozenset({"long.q"}),
)


@pytest.mark.parametrize(
    "asked",
    [
        MappableJobRequest(),
        MappableJobRequest(hard=(("h_rt", "60"), ("mf", "1G")), pe="smp", slots=4, project="chem"),
        MappableJobRequest(pe="mpi*", slots=16, queues=("long.q",), soft=(("mem_free", "1G"),)),
    ],
    ids=["nothing", "all of it", "a pattern of environments"],
)
def test_a_request_for_names_that_the_cluster_offers_stays_unchanged(asked: MappableJobRequest) -> None:
    assert drop_unoffered_soft_requests(asked, KNOWN, "beta") == asked


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (MappableJobRequest(hard=(("gpu", "1"),)), "beta has no resource gpu"),
        (MappableJobRequest(pe="orte", slots=2), "beta has no parallel environment orte"),
        (MappableJobRequest(pe="open*", slots=2), "beta has no parallel environment open*"),
        (MappableJobRequest(pe="smp.", slots=2), "beta has no parallel environment smp."),
        (MappableJobRequest(project="phys"), "beta has no project phys"),
        (MappableJobRequest(queues=("long.q", "short.q")), "beta has no queue short.q"),
    ],
)
def test_a_hard_request_for_a_name_that_the_cluster_lacks_refuses_the_job(
    asked: MappableJobRequest, words: str
) -> None:
    with pytest.raises(UnmappableRequest) as refused:
        drop_unoffered_soft_requests(asked, KNOWN, "beta")

    assert str(refused.value) == words


OAR = NamesOfferedByCluster(
    resource=frozenset({"memnode", "gpu", "h_rt"}), **{kind: frozenset({ANY}) for kind in ("pe", "project", "queue")}
)


def test_an_oar_server_offers_only_property_names_for_comparison() -> None:
    """Relations, levels and case of a property name do not matter."""
    hard = (("MemNode>=", "1"), ("/gpu", "2"), ("h_rt", "60"))
    asked = MappableJobRequest(hard=hard, pe="mpi*", slots=2, project="chem", queues=("besteffort",))

    assert drop_unoffered_soft_requests(asked, OAR, "gamma") == asked


@pytest.mark.parametrize("name", ["nonesuch=", "/nonesuch", "nonesuch<"])
def test_a_property_that_no_oar_resource_has_refuses_the_job(name: str) -> None:
    with pytest.raises(UnmappableRequest, match=r"^gamma has no resource nonesuch$"):
        drop_unoffered_soft_requests(MappableJobRequest(hard=((name, "1"),)), OAR, "gamma")


def test_a_soft_request_for_an_unknown_resource_is_dropped_with_a_note() -> None:
    asked = MappableJobRequest(soft=(("gpu", "1"), ("mf", "1G")), notes=("before",), slots=1)
    there = drop_unoffered_soft_requests(asked, KNOWN, "beta")

    assert there.soft == (("mf", "1G"),)
    assert there.notes == ("before", "soft request gpu=1 left out: beta has no resource gpu")
