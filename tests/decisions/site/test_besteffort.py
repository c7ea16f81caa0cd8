"""Best-effort queues are preempted slot by slot, and their set-up changes nothing else of the site."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site.besteffort_findings import (
    METHOD,
    RESOURCE,
    RULE,
    BestEffortQueueLayout,
    besteffort_queue_findings,
    besteffort_removal_edits,
    choose_besteffort_model_queue,
    format_queue_slots_by_host,
)
from gridbridge.model.qconf_attribute_parser import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import (
    BestEffortCellFacts,
    FindingSeverity,
    QconfComplexRow,
    SetupEdit,
    SetupEditVerb,
)
from gridbridge.site import setup_edits

QUOTA = "{\n   name q\n   enabled TRUE\n   limit users {*} to slots=2\n}\n"
EXEMPT = QUOTA.replace("   limit", f"   {RULE}\n   limit", 1)
LOCAL = {"hostlist": "@allhosts", "pe_list": "smp mpi", "user_lists": "staff"}


def a_cell(
    queues: dict[str, QconfSettings] | None = None, slots: dict[str, dict[str, int]] | None = None, **others: object
) -> BestEffortCellFacts:
    plain = BestEffortCellFacts(
        complexes={},
        queues={"all.q": LOCAL, **(queues or {})},
        environments={"smp": {"allocation_rule": "$pe_slots"}, "mpi": {"allocation_rule": "$fill_up"}},
        slots={"all.q": {"n1": 2, "n2": 2}, **(slots or {})},
    )
    return replace(plain, **others)  # type: ignore[arg-type]  # by their names


def ready() -> BestEffortCellFacts:
    queue = {
        **LOCAL,
        **{"qtype": "BATCH", "rerun": "FALSE", "suspend_method": METHOD, "resume_method": "NONE"},
        **{"suspend_thresholds": "NONE", "subordinate_list": "NONE", "pe_list": "smp"},
        "complex_values": "gb_besteffort=TRUE",
    }
    local = LOCAL | {"subordinate_list": "gb-be1=1,gb-be2=2"}
    return a_cell(
        {"all.q": local, "gb-be1": queue, "gb-be2": queue},
        {"gb-be1": {"n1": 1, "n2": 1}, "gb-be2": {"n1": 1, "n2": 1}},
        complexes={RESOURCE.name: RESOURCE},
        quotas={"q": EXEMPT},
    )


def changed(name: str, **attributes: str) -> BestEffortCellFacts:
    cell = ready()
    return replace(cell, queues=cell.queues | {name: {**cell.queues[name], **attributes}})


def edits(cell: BestEffortCellFacts, model: str = "all.q", most: int | None = None) -> list[SetupEdit]:
    found = besteffort_queue_findings("alpha", cell, model, most)
    return [edit for each in found if each.state is not FindingSeverity.OK for edit in each.mend]


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 9, 64, 100])
@pytest.mark.parametrize("most", [1, 3, 8])
def test_running_and_local_jobs_never_exceed_the_slots_of_a_host(largest: int, most: int) -> None:
    """No block is preempted without need."""
    cell = a_cell(slots={"all.q": {"big": largest, "small": -(-largest // 2)}})
    blocks = BestEffortQueueLayout(cell, "all.q", most)
    suspended_at = blocks.suspension_slots_by_queue("all.q").values()

    for host, slots in cell.slots["all.q"].items():
        own = [blocks.slots_by_host_of_queue(number)[host] for number in range(1, blocks.count + 1)]
        assert sum(own) == slots
        for used in range(slots + 1):
            left = sum(n for n, limit in zip(own, suspended_at, strict=True) if used < limit)
            assert slots - used - blocks.size < left <= slots - used


def test_each_of_several_local_queues_on_a_host_suspends_every_block() -> None:
    """Grid Engine does not add up the slots of two queues."""
    queues = {"long.q": LOCAL, "other.q": {"hostlist": "n9"}}
    cell = a_cell(queues, {"long.q": {"n1": 2}, "other.q": {"n9": 4}})

    found = [(one.name, one.value) for one in edits(cell) if one.attribute == "subordinate_list"]

    assert found == [("all.q", "gb-be1=1,gb-be2=1"), ("long.q", "gb-be1=1,gb-be2=1")]


def test_best_effort_queues_get_their_slots_last() -> None:
    """Each queue is created without slots."""
    done = edits(a_cell(quotas={"q": QUOTA}))

    assert [(one.verb, one.name, one.attribute) for one in done] == [
        (SetupEditVerb.SET_COMPLEX, "gb_besteffort", ""),
        (SetupEditVerb.EXEMPT, "q", "name gb-besteffort"),
        (SetupEditVerb.ADD_QUEUE, "gb-be1", "all.q"),
        (SetupEditVerb.ADD_QUEUE, "gb-be2", "all.q"),
        (SetupEditVerb.MERGE, "all.q", "subordinate_list"),
        (SetupEditVerb.REPLACE, "gb-be1", "slots"),
        (SetupEditVerb.REPLACE, "gb-be2", "slots"),
    ]
    made = dict(line.split(" ", 1) for line in done[2].value.splitlines())
    assert (made["slots"], made["pe_list"], made["user_lists"]) == ("0", "smp", "staff")
    assert (made["rerun"], made["subordinate_list"], made["seq_no"]) == ("FALSE", "NONE", "901")


def test_the_best_effort_resource_is_made_forced() -> None:
    """A job that does not request a forced resource never starts in the queue (complex(5))."""
    wrong = QconfComplexRow(name="gb_besteffort", shortcut="x", type="BOOL", relation="==")

    assert edits(replace(ready(), complexes={"gb_besteffort": wrong}))[0].value.split()[4] == "FORCED"


@pytest.mark.parametrize(
    ("attribute", "value"), [("rerun", "TRUE"), ("suspend_method", "NONE"), ("hostlist", "n1"), ("user_lists", "NONE")]
)
def test_only_a_changed_attribute_of_a_best_effort_queue_is_restored(attribute: str, value: str) -> None:
    (edit,) = edits(changed("gb-be1", **{attribute: value}))

    assert (edit.verb, edit.name, edit.attribute) == (SetupEditVerb.REPLACE, "gb-be1", attribute)


@pytest.mark.parametrize(
    ("values", "name"),
    [("NONE", "gb-be1"), ("gb_besteffort=TRUE,[n1=exclusive=1],[@big=gb_besteffort=TRUE]", "gb-be1@n1")],
)
def test_a_complex_list_without_the_resource_gets_the_resource(values: str, name: str) -> None:
    """Without the resource the queue would accept and preempt everybody's jobs.

    A host-specific list replaces the whole default list. Removal still includes the queue.
    """
    cell = changed("gb-be1", complex_values=values)
    (edit,) = edits(cell)

    assert (edit.verb, edit.name, edit.value) == (SetupEditVerb.MERGE, name, "gb_besteffort=TRUE")
    removal = besteffort_removal_edits("alpha", cell)
    assert [edit.name for edit in removal if edit.verb == SetupEditVerb.DROP_QUEUE] == ["gb-be1", "gb-be2"]


def test_a_host_with_more_slots_gets_another_best_effort_queue() -> None:
    cell = ready()
    done = edits(replace(cell, slots={**cell.slots, "all.q": {"n1": 2, "n2": 3}}))

    assert [(one.verb, one.name, one.value) for one in done[1:]] == [
        (SetupEditVerb.MERGE, "all.q", "gb-be3=3"),
        (SetupEditVerb.REPLACE, "gb-be3", "0,[n2=1]"),
    ]


@pytest.mark.parametrize(
    ("own", "most", "right"),
    [(8, None, 4), (8, 2, 4), (8, 8, 1), (64, None, 8)],
    ids=["kept", "two queues", "eight queues", "more slots"],
)
def test_blocks_keep_their_size_unless_a_number_of_queues_is_requested(own: int, most: int | None, right: int) -> None:
    """The check does not know the requested number."""
    cell = ready()
    slots = {name: {"n1": 4, "n2": 4} for name in ("gb-be1", "gb-be2")} | {"all.q": {"n1": own, "n2": 8}}

    assert BestEffortQueueLayout(replace(cell, slots=slots), "all.q", most).size == right


def test_host_specific_subordinate_lists_are_merged_too() -> None:
    """A host-specific list replaces the default list."""
    cell = a_cell({"all.q": LOCAL | {"subordinate_list": "low.q=1,[n1=NONE],[@big=low.q=3,mid.q=4]"}})

    assert [edit.name for edit in edits(cell) if edit.attribute == "subordinate_list"] == [
        "all.q",
        "all.q@n1",
        "all.q@@big",
    ]


def test_a_slotwise_subordinate_list_is_left_to_the_administrator() -> None:
    cell = a_cell({"all.q": LOCAL | {"subordinate_list": "slots=2(low.q:1:sr)"}})
    (wrong,) = [one for one in besteffort_queue_findings("alpha", cell, "all.q", 8) if one.hint]

    assert (wrong.state, wrong.mend) == (FindingSeverity.BROKEN, ())


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (QconfComplexRow(name="slots", shortcut="s", type="INT", relation="<="), "resource quota"),
        (QconfComplexRow(name="h_vmem", shortcut="h", type="MEMORY", relation="<="), "remove the default"),
        (QconfComplexRow(name="alone", shortcut="a", type="BOOL", relation="EXCL"), "job requests alone"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_consumables_that_delay_local_jobs_are_a_warning(row: QconfComplexRow, words: str) -> None:
    """A local job that lacks a consumable never starts, and only a started job preempts tasks."""
    cell = a_cell(complexes={row.name: row}, taken={row.name: ("n1", "elsewhere")})

    (told,) = [one for one in besteffort_queue_findings("alpha", cell, "all.q", 8) if one.hint]

    assert told.state is FindingSeverity.WARNING
    assert words in told.hint
    assert "at n1," in told.found


def test_the_model_queue_is_the_chosen_or_the_largest_local_queue() -> None:
    cell = a_cell({"wide.q": {"hostlist": "@all"}}, {"wide.q": {"n1": 2, "n2": 2, "n3": 1}})

    assert choose_besteffort_model_queue(cell, None) == "wide.q"
    assert choose_besteffort_model_queue(cell, "all.q") == "all.q"
    assert choose_besteffort_model_queue(cell, "none.q") == ""
    there = {"wide.q": {"hostlist": "@all"}, **ready().queues}
    assert choose_besteffort_model_queue(replace(cell, queues=there), None) == "all.q"


def test_slots_by_host_are_formatted_as_a_queue_attribute() -> None:
    assert format_queue_slots_by_host({"n1": 4, "n2": 4, "n3": 1}) == "4,[n3=1]"
    assert format_queue_slots_by_host({}) == "0"


def test_best_effort_removal_suspends_tasks_first_and_keeps_foreign_settings() -> None:
    cell = changed("all.q", subordinate_list="gb-be1=1,low.q=1,gb-be2=2")
    done = list(besteffort_removal_edits("alpha", cell))

    assert [(one.verb, one.name) for one in done] == [
        (SetupEditVerb.SUSPEND, "gb-be1"),
        (SetupEditVerb.SUSPEND, "gb-be2"),
        (SetupEditVerb.SHELL, "wait up to 60 s for the end of the tasks"),
        (SetupEditVerb.DROP, "all.q"),
        (SetupEditVerb.DROP_QUEUE, "gb-be1"),
        (SetupEditVerb.DROP_QUEUE, "gb-be2"),
        (SetupEditVerb.INCLUDE, "q"),
        (SetupEditVerb.DROP_COMPLEX, "gb_besteffort"),
    ]
    assert done[3].value == "gb-be1=1,gb-be2=2"


def test_removal_keeps_a_resource_that_another_queue_offers() -> None:
    cell = ready()
    own = {**cell.queues, "cheap.q": {"complex_values": "gb_besteffort=TRUE"}}

    verbs = [one.verb for one in besteffort_removal_edits("alpha", replace(cell, queues=own))]

    assert SetupEditVerb.DROP_COMPLEX not in verbs
    assert list(besteffort_removal_edits("alpha", a_cell())) == []


def test_a_queue_without_slots_needs_no_best_effort_queue() -> None:
    blocks = BestEffortQueueLayout(a_cell(slots={"all.q": {"n1": 0}}), "all.q", None)

    assert (blocks.queue_names(), blocks.suspension_slots_by_queue("all.q")) == ((), {})


@pytest.mark.parametrize(
    ("local", "right", "made"),
    [
        ("NONE,[@big=smp mpi]", "NONE,[@big=smp]", {"": "NONE", "@@big": "smp"}),
        ("smp mpi,[n1=mpi]", "smp,[n1=NONE]", {"@n1": "NONE"}),
        ("smp,[n1=smp],[@big=NONE]", "smp,[n1=smp],[@big=NONE]", {"@@big": "NONE"}),
    ],
)
def test_parallel_environments_follow_the_model_queue_on_each_host(
    local: str, right: str, made: dict[str, str]
) -> None:
    cell = changed("all.q", pe_list=local)
    done = {one.name: one.value for one in edits(cell) if one.attribute == "pe_list"}
    own = {name: {**cell.queues[name], "pe_list": right} for name in ("gb-be1", "gb-be2")}

    assert done == {f"{name}{where}": value for name in own for where, value in made.items()}
    assert edits(replace(cell, queues={**cell.queues, **own})) == []


@pytest.mark.parametrize(("attribute", "value"), [("rerun", "FALSE,[n1=TRUE]"), ("pe_list", "smp,[n1=NONE]")])
def test_a_host_specific_value_that_the_model_lacks_is_purged(attribute: str, value: str) -> None:
    """Such a value stays when the default is replaced (seen on 8.1.9)."""
    done = edits(changed("gb-be1", **{attribute: value}))

    assert [setup_edits.setup_edit_command(edit) for edit in done] == [f"qconf -purge queue {attribute} gb-be1@n1"]


def test_the_order_of_names_in_a_list_does_not_matter() -> None:
    lists = {"all.q": "a b,[n1=c d]", "gb-be1": "b,a,[n1=d c]", "gb-be2": "b,a,[n1=d c]"}
    cell = ready()

    assert edits(replace(cell, queues={name: cell.queues[name] | {"user_lists": lists[name]} for name in lists})) == []
