"""A job's request is translated by mapping rules and by the names that a cluster offers."""

import pytest

from gridbridge.decisions.transfer.request_mapping import (
    MappableJobRequest,
    drop_unoffered_soft_requests,
    map_request_to_remote_cluster,
    spread_slots_over_nodes,
)
from gridbridge.errors import UnmappableRequest
from gridbridge.model.names_offered_by_cluster import ANY as ANY_NAME
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.transfer.request_mapping_rules import (
    ANY,
    PE,
    PROJECT,
    QUEUE,
    RESOURCE,
    RequestMapping,
    RequestMappingRule,
)

H_RT = (("h_rt", "1:0:0"),)


def there(asked: MappableJobRequest, **rules: RequestMappingRule) -> MappableJobRequest:
    """Translate a request by rules named `KIND_NAME`; NAME `any` is the rule for all names."""
    named = {tuple(name.split("_", 1)): rule for name, rule in rules.items()}
    mapping = {(kind, ANY if name == "any" else name): rule for (kind, name), rule in named.items()}
    return map_request_to_remote_cluster(asked, RequestMapping(mapping), "beta")


@pytest.mark.parametrize(
    ("asked", "rule", "hard"),
    [
        ("1:0:0", RequestMappingRule(), "h_rt=1:0:0"),
        ("1:0:0", RequestMappingRule(to="walltime"), "walltime=1:0:0"),
        ("1:0:0", RequestMappingRule(to="walltime", unit="s"), "walltime=3600"),
        ("1:0:0", RequestMappingRule(scale="1.5"), "h_rt=5400"),
        ("1:0:0", RequestMappingRule(scale="1.5", unit="h:m:s"), "h_rt=1:30:00"),
        ("1:0:0", RequestMappingRule(scale="1.1"), "h_rt=3960"),
        ("INFINITY", RequestMappingRule(unit="s"), ""),
        ("INFINITY", RequestMappingRule(unit="s", default="1:0:0"), "h_rt=3600"),
        ("INFINITY", RequestMappingRule(to="walltime"), "walltime=INFINITY"),
        ("1:0:0", RequestMappingRule(to="time", relation="="), "time==1:0:0"),
        ("1:0:0", RequestMappingRule(to="time", relation=">="), "time>==3600"),
        ("2K", RequestMappingRule(relation="<"), "h_rt<=2048"),
        ("INFINITY", RequestMappingRule(relation=">="), ""),
        ("2.4", RequestMappingRule(to="cpufreq", relation=">="), "cpufreq>==2.4"),
        ("sm_70", RequestMappingRule(to="cc", relation=">="), "cc>==sm_70"),
        ("titan", RequestMappingRule(to="model", relation="<"), "model<=titan"),
        ("medium", RequestMappingRule(to="size", relation="<"), "size<=medium"),
        ("1:0:0", RequestMappingRule(drop="yes"), ""),
        ("1:0:0", RequestMappingRule(default="2:0:0", require="yes"), "h_rt=1:0:0"),
    ],
)
def test_a_mapping_rule_renames_scales_converts_or_drops_a_resource(
    asked: str, rule: RequestMappingRule, hard: str
) -> None:
    translated = there(MappableJobRequest(hard=(("h_rt", asked),)), resource_h_rt=rule)

    assert ",".join("=".join(pair) for pair in translated.hard) == hard


def test_a_request_without_mapping_rules_stays_unchanged() -> None:
    asked = MappableJobRequest(hard=(("arch", "lx-*"), ("gpu", "")), soft=H_RT, pe="smp", slots=3, project="chem")

    assert there(asked) == asked


REQUIRED = {"resource_h_rt": RequestMappingRule(require="yes")}
SOON, TWICE = MappableJobRequest(hard=(("h_rt", "soon"),)), MappableJobRequest(hard=(("a", "x"), ("b", "y")))


@pytest.mark.parametrize(
    ("asked", "rules", "words"),
    [
        (MappableJobRequest(), REQUIRED, "qsub -l h_rt="),
        (MappableJobRequest(soft=H_RT), REQUIRED, "hard request for h_rt; expected qsub -l h_rt=VALUE"),
        (
            MappableJobRequest(hard=(("h_rt", "INFINITY"),)),
            {"resource_h_rt": RequestMappingRule(require="yes", unit="s")},
            "requires a hard request for h_rt",
        ),
        (MappableJobRequest(), {"project_any": RequestMappingRule(reject="no")}, "no job without a project: no"),
        (TWICE, {"resource_a": RequestMappingRule(to="b")}, "b is requested as both 'x' and 'y'"),
        (MappableJobRequest(hard=H_RT), {"resource_h_rt": RequestMappingRule(reject="no limits")}, "h_rt: no limits"),
        (SOON, {"resource_h_rt": RequestMappingRule(unit="s")}, "'soon' is no number"),
        (MappableJobRequest(pe="mpi"), {"pe_mpi": RequestMappingRule(reject="slow network")}, "mpi: slow network"),
        (MappableJobRequest(project="x"), {"project_x": RequestMappingRule(reject="secret")}, "project x: secret"),
        (MappableJobRequest(queues=("gpu.q",)), {"queue_gpu.q": RequestMappingRule(reject="no GPU")}, "gpu.q: no GPU"),
    ],
)
def test_a_hard_request_that_the_mapping_cannot_meet_refuses_the_job(
    asked: MappableJobRequest, rules: dict[str, RequestMappingRule], words: str
) -> None:
    with pytest.raises(UnmappableRequest, match=r"beta|soon|both") as refused:
        there(asked, **rules)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "hard"),
    [
        ("mem_free=1G h_vmem=4G", "h_vmem=4G"),
        ("mem_free=4G h_vmem=1G", "h_vmem=4096M"),
        ("h_vmem=8G", "h_vmem=8G"),
        ("mem_free=4G h_vmem=INFINITY", "h_vmem=INFINITY"),
        ("arch=lx", "arch=lx h_vmem=512M"),
    ],
)
def test_two_resources_mapped_to_one_name_request_the_larger_amount(asked: str, hard: str) -> None:
    """A default yields to a requested amount."""
    pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in asked.split()))
    rule = RequestMappingRule(to="h_vmem", unit="M", default="0.5G")
    translated = there(MappableJobRequest(hard=pairs), resource_mem_free=rule)

    assert " ".join("=".join(pair) for pair in translated.hard) == hard


def test_a_soft_request_that_the_mapping_rejects_is_dropped_with_a_note() -> None:
    asked = MappableJobRequest(soft=(("gpu", "1"), ("arch", "lx-*")))
    translated = there(asked, resource_gpu=RequestMappingRule(reject="none there"))

    assert translated.soft == (("arch", "lx-*"),)
    assert translated.notes == ("soft request gpu=1 left out: beta has no gpu: none there",)


@pytest.mark.parametrize(
    ("rule", "parallel"),
    [
        (RequestMappingRule(), ("mpi", 3)),
        (RequestMappingRule(to="orte"), ("orte", 3)),
        (RequestMappingRule(scale="2"), ("mpi", 6)),
        (RequestMappingRule(scale="0.5"), ("mpi", 2)),
    ],
)
def test_a_mapping_rule_renames_a_parallel_environment_and_scales_its_slots(
    rule: RequestMappingRule, parallel: tuple[str, int]
) -> None:
    translated = there(MappableJobRequest(pe="mpi", slots=3), pe_mpi=rule)

    assert (translated.pe, translated.slots) == parallel


@pytest.mark.parametrize(
    ("project", "name"), [("chem", "chemistry"), ("physics", "foreign"), ("", "foreign"), ("x", "")]
)
def test_projects_without_their_own_rule_use_the_rule_for_all_projects(project: str, name: str) -> None:
    rules = {
        "project_chem": RequestMappingRule(to="chemistry"),
        "project_x": RequestMappingRule(drop="yes"),
        "project_any": RequestMappingRule(to="foreign"),
    }
    assert there(MappableJobRequest(project=project), **rules).project == name


def test_only_queues_with_a_mapping_rule_are_requested() -> None:
    asked = MappableJobRequest(queues=("transfer-beta", "long.q", "longer.q"))
    rules = {"queue_long.q": RequestMappingRule(to="batch.q"), "queue_longer.q": RequestMappingRule(to="batch.q")}

    assert there(asked, **rules).queues == ("batch.q",)
    assert there(asked).queues == ()


def test_equal_names_of_different_kinds_have_separate_mapping_rules() -> None:
    rules = {(kind, "x"): RequestMappingRule(to=f"{kind}-x") for kind in (RESOURCE, PE, PROJECT, QUEUE)}
    asked = MappableJobRequest(hard=(("x", "1"),), pe="x", project="x", queues=("x",))
    translated = map_request_to_remote_cluster(asked, RequestMapping(rules), "beta")

    assert (translated.hard, translated.pe) == ((("resource-x", "1"),), "pe-x")
    assert (translated.project, translated.queues) == ("project-x", ("queue-x",))


def test_a_resource_and_its_shortcut_are_one_request() -> None:
    both = there(MappableJobRequest(hard=(("vf", "1G"), ("virtual_free", "2G"))), resource_h_rt=RequestMappingRule())
    asked = there(MappableJobRequest(hard=(("virtual_free", "2G"),)), resource_vf=RequestMappingRule(default="4G"))
    silent = there(MappableJobRequest(), resource_vf=RequestMappingRule(default="4G"))

    assert both.hard == (("vf", "2G"),)
    assert asked.hard == (("virtual_free", "2G"),)
    assert silent.hard == (("vf", "4G"),)


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


OAR = NamesOfferedByCluster(
    resource=frozenset({"memnode", "gpu", "h_rt"}),
    **{kind: frozenset({ANY_NAME}) for kind in ("pe", "project", "queue")},
)


@pytest.mark.parametrize(
    ("asked", "offered", "words"),
    [
        (MappableJobRequest(hard=(("gpu", "1"),)), KNOWN, "resource gpu"),
        (MappableJobRequest(pe="orte", slots=2), KNOWN, "parallel environment orte"),
        (MappableJobRequest(pe="open*", slots=2), KNOWN, "parallel environment open*"),
        (MappableJobRequest(pe="smp.", slots=2), KNOWN, "parallel environment smp."),
        (MappableJobRequest(project="phys"), KNOWN, "project phys"),
        (MappableJobRequest(queues=("long.q", "short.q")), KNOWN, "queue short.q"),
        *((MappableJobRequest(hard=((name, "1"),)), OAR, "resource none") for name in ("none=", "/none", "none<")),
    ],
)
def test_a_hard_request_for_a_name_that_the_cluster_lacks_refuses_the_job(
    asked: MappableJobRequest, offered: NamesOfferedByCluster, words: str
) -> None:
    with pytest.raises(UnmappableRequest) as refused:
        drop_unoffered_soft_requests(asked, offered, "beta")

    assert str(refused.value) == f"beta has no {words}"


def test_an_oar_server_offers_only_property_names_for_comparison() -> None:
    """Relations, levels and case of a property name do not matter."""
    hard = (("MemNode>=", "1"), ("/gpu", "2"), ("h_rt", "60"))
    asked = MappableJobRequest(hard=hard, pe="mpi*", slots=2, project="chem", queues=("besteffort",))

    assert drop_unoffered_soft_requests(asked, OAR, "gamma") == asked


def test_a_soft_request_for_an_unknown_resource_is_dropped_with_a_note() -> None:
    asked = MappableJobRequest(soft=(("gpu", "1"), ("mf", "1G")), notes=("before",), slots=1)
    there = drop_unoffered_soft_requests(asked, KNOWN, "beta")

    assert there.soft == (("mf", "1G"),)
    assert there.notes == ("before", "soft request gpu=1 left out: beta has no resource gpu")


SPREADS = ("", "pe_slots", "fill_up", "round_robin", "1", "3", "8", "1000")


@pytest.mark.parametrize(
    ("slots", "spread", "nodes", "expected"),
    [
        (8, "", 3, ()),
        (8, "pe_slots", 3, ()),
        (8, "fill_up", 3, ((0, 8),)),
        (8, "4", 3, ((2, 4),)),
        (8, "1", 3, ((8, 1),)),
        (9, "4", 3, ((2, 4), (1, 1))),
        (3, "4", 3, ((1, 3),)),
        (2, "round_robin", 3, ((2, 1),)),
        (3, "round_robin", 3, ((3, 1),)),
        (6, "round_robin", 3, ((3, 2),)),
        (8, "round_robin", 3, ((3, 2), (2, 1))),
        (8, "round_robin", 0, ((8, 1),)),
    ],
    ids=[
        *("one node", "one node, said", "wherever they are free", "four on each of two"),
        *("each on a node of its own", "a rest", "less than one node's", "fewer than nodes", "as many as nodes"),
        *("twice", "twice, and two once more", "nobody knows the nodes"),
    ],
)
def test_slots_are_placed_on_oar_nodes_as_the_allocation_rule_says(
    slots: int, spread: str, nodes: int, expected: tuple[tuple[int, int], ...]
) -> None:
    assert spread_slots_over_nodes(slots, spread, nodes) == expected


@pytest.mark.parametrize("spread", SPREADS)
def test_every_allocation_rule_grants_exactly_the_requested_slots(spread: str) -> None:
    for slots in range(1, 50):
        for nodes in range(8):
            found = spread_slots_over_nodes(slots, spread, nodes) or ((1, slots),)

            assert sum(max(1, count) * each for count, each in found) == slots
