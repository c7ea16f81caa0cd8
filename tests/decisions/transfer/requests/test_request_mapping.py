"""What a job asks for at a remote cluster, by the rules of its mapping."""

import pytest

from gridbridge.decisions.transfer.request_mapping import MappedRequest, translate_request
from gridbridge.errors import UnmappableRequest
from gridbridge.model.transfer.request_rules import (
    ANY,
    PE,
    PROJECT,
    QUEUE,
    RESOURCE,
    MappingRule,
    RequestMapping,
)

H_RT = (("h_rt", "1:0:0"),)


def there(asked: MappedRequest, **rules: MappingRule) -> MappedRequest:
    """Translate by rules that are named `KIND_NAME`; `_any` is the one for all."""
    named = {tuple(name.split("_", 1)): rule for name, rule in rules.items()}
    mapping = {(kind, ANY if name == "any" else name): rule for (kind, name), rule in named.items()}
    return translate_request(asked, RequestMapping(mapping), "beta")


@pytest.mark.parametrize(
    ("asked", "rule", "hard"),
    [
        ("1:0:0", MappingRule(), "h_rt=1:0:0"),
        ("1:0:0", MappingRule(to="walltime"), "walltime=1:0:0"),
        ("1:0:0", MappingRule(to="walltime", unit="s"), "walltime=3600"),
        ("1:0:0", MappingRule(scale="1.5"), "h_rt=5400"),
        ("1:0:0", MappingRule(scale="1.5", unit="h:m:s"), "h_rt=1:30:00"),
        ("1:0:0", MappingRule(scale="1.1"), "h_rt=3960"),
        ("INFINITY", MappingRule(unit="s"), ""),
        ("INFINITY", MappingRule(unit="s", default="1:0:0"), "h_rt=3600"),
        ("INFINITY", MappingRule(to="walltime"), "walltime=INFINITY"),
        ("1:0:0", MappingRule(to="time", relation="="), "time==1:0:0"),
        ("1:0:0", MappingRule(to="time", relation=">="), "time>==3600"),
        ("2K", MappingRule(relation="<"), "h_rt<=2048"),
        ("INFINITY", MappingRule(relation=">="), ""),
        ("2.4", MappingRule(to="cpufreq", relation=">="), "cpufreq>==2.4"),
        ("sm_70", MappingRule(to="cc", relation=">="), "cc>==sm_70"),
        ("titan", MappingRule(to="model", relation="<"), "model<=titan"),
        ("medium", MappingRule(to="size", relation="<"), "size<=medium"),
        ("1:0:0", MappingRule(drop="yes"), ""),
        ("1:0:0", MappingRule(default="2:0:0", require="yes"), "h_rt=1:0:0"),
    ],
)
def test_a_resource_is_renamed_scaled_converted_or_dropped(
    asked: str, rule: MappingRule, hard: str
) -> None:
    translated = there(MappedRequest(hard=(("h_rt", asked),)), resource_h_rt=rule)

    assert ",".join("=".join(pair) for pair in translated.hard) == hard


def test_what_has_no_rule_stays_as_it_is() -> None:
    asked = MappedRequest(
        hard=(("arch", "lx-*"), ("gpu", "")), soft=H_RT, pe="smp", slots=3, project="chem"
    )

    assert there(asked) == asked


def test_what_a_job_does_not_ask_for_has_its_default_in_the_words_of_home() -> None:
    rule = MappingRule(to="walltime", unit="s", default="0:10:0")

    assert there(MappedRequest(), resource_h_rt=rule).hard == (("walltime", "600"),)
    assert there(MappedRequest(hard=H_RT), resource_h_rt=rule).hard == (("walltime", "3600"),)


@pytest.mark.parametrize(
    ("asked", "rules", "words"),
    [
        (MappedRequest(), {"resource_h_rt": MappingRule(require="yes")}, "qsub -l h_rt="),
        (
            MappedRequest(soft=H_RT),
            {"resource_h_rt": MappingRule(require="yes")},
            "hard request for h_rt; qsub -l h_rt=",
        ),
        (
            MappedRequest(hard=(("h_rt", "INFINITY"),)),
            {"resource_h_rt": MappingRule(require="yes", unit="s")},
            "requires a hard request for h_rt",
        ),
        (
            MappedRequest(),
            {"project_any": MappingRule(reject="no")},
            "no job without a project: no",
        ),
        (
            MappedRequest(hard=(("a", "x"), ("b", "y"))),
            {"resource_a": MappingRule(to="b")},
            "b is requested as both 'x' and 'y'",
        ),
        (
            MappedRequest(hard=H_RT),
            {"resource_h_rt": MappingRule(reject="no limits")},
            "h_rt: no limits",
        ),
        (
            MappedRequest(hard=(("h_rt", "soon"),)),
            {"resource_h_rt": MappingRule(unit="s")},
            "'soon' is no number",
        ),
        (
            MappedRequest(pe="mpi"),
            {"pe_mpi": MappingRule(reject="slow network")},
            "mpi: slow network",
        ),
        (
            MappedRequest(project="x"),
            {"project_x": MappingRule(reject="secret")},
            "project x: secret",
        ),
        (
            MappedRequest(queues=("gpu.q",)),
            {"queue_gpu.q": MappingRule(reject="no GPU")},
            "gpu.q: no GPU",
        ),
    ],
)
def test_a_hard_request_that_can_not_be_met_refuses_the_job(
    asked: MappedRequest, rules: dict[str, MappingRule], words: str
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
def test_what_two_resources_become_is_asked_for_once_for_the_larger_amount(
    asked: str, hard: str
) -> None:
    """A default yields to what is asked for."""
    pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in asked.split()))
    rule = MappingRule(to="h_vmem", unit="M", default="0.5G")
    translated = there(MappedRequest(hard=pairs), resource_mem_free=rule)

    assert " ".join("=".join(pair) for pair in translated.hard) == hard


def test_a_soft_request_that_can_not_be_met_is_left_out_with_a_note() -> None:
    asked = MappedRequest(soft=(("gpu", "1"), ("arch", "lx-*")))
    translated = there(asked, resource_gpu=MappingRule(reject="none there"))

    assert translated.soft == (("arch", "lx-*"),)
    assert translated.notes == ("soft request gpu=1 left out: beta has no gpu: none there",)


@pytest.mark.parametrize(
    ("rule", "parallel"),
    [
        (MappingRule(), ("mpi", 3)),
        (MappingRule(to="orte"), ("orte", 3)),
        (MappingRule(scale="2"), ("mpi", 6)),
        (MappingRule(scale="0.5"), ("mpi", 2)),
    ],
)
def test_a_parallel_environment_is_renamed_and_its_slots_are_scaled(
    rule: MappingRule, parallel: tuple[str, int]
) -> None:
    translated = there(MappedRequest(pe="mpi", slots=3), pe_mpi=rule)

    assert (translated.pe, translated.slots) == parallel


@pytest.mark.parametrize(
    ("project", "name"), [("chem", "chemistry"), ("physics", "foreign"), ("", "foreign"), ("x", "")]
)
def test_foreign_jobs_have_the_project_that_was_made_for_them(project: str, name: str) -> None:
    rules = {
        "project_chem": MappingRule(to="chemistry"),
        "project_x": MappingRule(drop="yes"),
        "project_any": MappingRule(to="foreign"),
    }
    assert there(MappedRequest(project=project), **rules).project == name


def test_only_queues_with_a_rule_are_asked_for() -> None:
    asked = MappedRequest(queues=("transfer-beta", "long.q", "longer.q"))
    rules = {"queue_long.q": MappingRule(to="batch.q"), "queue_longer.q": MappingRule(to="batch.q")}

    assert there(asked, **rules).queues == ("batch.q",)
    assert there(asked).queues == ()


def test_every_kind_has_rules_of_its_own() -> None:
    """A resource and a project may bear one name."""
    rules = {(kind, "x"): MappingRule(to=f"{kind}-x") for kind in (RESOURCE, PE, PROJECT, QUEUE)}
    asked = MappedRequest(hard=(("x", "1"),), pe="x", project="x", queues=("x",))
    translated = translate_request(asked, RequestMapping(rules), "beta")

    assert (translated.hard, translated.pe) == ((("resource-x", "1"),), "pe-x")
    assert (translated.project, translated.queues) == ("project-x", ("queue-x",))


def test_a_shortcut_and_its_resource_are_one_request() -> None:
    """An amount suits both; a default is for a job that asks for neither."""
    both = there(
        MappedRequest(hard=(("vf", "1G"), ("virtual_free", "2G"))), resource_h_rt=MappingRule()
    )
    asked = there(
        MappedRequest(hard=(("virtual_free", "2G"),)), resource_vf=MappingRule(default="4G")
    )
    silent = there(MappedRequest(), resource_vf=MappingRule(default="4G"))

    assert both.hard == (("vf", "2G"),)
    assert asked.hard == (("virtual_free", "2G"),)
    assert silent.hard == (("vf", "4G"),)
