"""What a cluster knows of a request, by the words that it last told."""

import pytest

from gridbridge.decisions.transfer.offered_names import check_offered_names
from gridbridge.decisions.transfer.request_mapping import MappedRequest
from gridbridge.errors import UnmappableRequest
from gridbridge.model.vocabulary import ANY, ClusterVocabulary

KNOWN = ClusterVocabulary(
    resource=frozenset({"h_rt", "mem_free", "mf"}),
    pe=frozenset({"mpi8", "mpi16", "smp"}),
    project=frozenset({"chem"}),
    queue=frozenset({"long.q"}),
)


@pytest.mark.parametrize(
    "asked",
    [
        MappedRequest(),
        MappedRequest(hard=(("h_rt", "60"), ("mf", "1G")), pe="smp", slots=4, project="chem"),
        MappedRequest(pe="mpi*", slots=16, queues=("long.q",), soft=(("mem_free", "1G"),)),
    ],
    ids=["nothing", "all of it", "a pattern of environments"],
)
def test_what_the_cluster_knows_is_asked_for_as_it_is(asked: MappedRequest) -> None:
    assert check_offered_names(asked, KNOWN, "beta") == asked


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (MappedRequest(hard=(("gpu", "1"),)), "beta has no resource gpu"),
        (MappedRequest(pe="orte", slots=2), "beta has no parallel environment orte"),
        (MappedRequest(pe="open*", slots=2), "beta has no parallel environment open*"),
        (MappedRequest(pe="smp.", slots=2), "beta has no parallel environment smp."),
        (MappedRequest(project="phys"), "beta has no project phys"),
        (MappedRequest(queues=("long.q", "short.q")), "beta has no queue short.q"),
    ],
)
def test_what_it_does_not_know_refuses_the_job(asked: MappedRequest, words: str) -> None:
    with pytest.raises(UnmappableRequest) as refused:
        check_offered_names(asked, KNOWN, "beta")

    assert str(refused.value) == words


OAR = ClusterVocabulary(
    resource=frozenset({"memnode", "gpu", "h_rt"}),
    **{kind: frozenset({ANY}) for kind in ("pe", "project", "queue")},
)


def test_of_an_oar_server_only_properties_are_known() -> None:
    """Under their relations and levels, in any case; of the rest everything may be asked for."""
    hard = (("MemNode>=", "1"), ("/gpu", "2"), ("h_rt", "60"))
    asked = MappedRequest(hard=hard, pe="mpi*", slots=2, project="chem", queues=("besteffort",))

    assert check_offered_names(asked, OAR, "gamma") == asked


@pytest.mark.parametrize("name", ["nonesuch=", "/nonesuch", "nonesuch<"])
def test_a_property_that_no_resource_has_refuses_the_job(name: str) -> None:
    with pytest.raises(UnmappableRequest, match=r"^gamma has no resource nonesuch$"):
        check_offered_names(MappedRequest(hard=((name, "1"),)), OAR, "gamma")


def test_a_soft_request_that_it_does_not_know_is_left_out_with_a_note() -> None:
    asked = MappedRequest(soft=(("gpu", "1"), ("mf", "1G")), notes=("before",), slots=1)
    there = check_offered_names(asked, KNOWN, "beta")

    assert there.soft == (("mf", "1G"),)
    assert there.notes == ("before", "soft request gpu=1 left out: beta has no resource gpu")
