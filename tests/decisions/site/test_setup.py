"""The items that the set-up of a transfer queue lacks."""

from dataclasses import replace

import pytest

from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.decisions.site.sge_configuration_findings import unreported_load_value_findings, widen_gid_range
from gridbridge.decisions.site.transfer_queue_findings import (
    is_existing_non_transfer_queue,
    sendable_parallel_environments,
    transfer_queue_attributes,
)
from gridbridge.decisions.site.transfer_queue_setup_findings import (
    transfer_queue_removal_edits,
    transfer_setup_findings,
)
from gridbridge.decisions.transfer.transfer_queue_closing import transfer_queue_load_thresholds
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    QconfComplexRow,
    RunningExecd,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferSetupSituation,
)
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.site import setup_edits
from tests.decisions.site.setups import SENSOR, WANTED, a_cell, a_ready_situation, a_situation, at_home

PUBLISHING = PollerProcessFacts(is_running=True, pid=5, age_s=1.0, values=frozenset({"gb_beta_up"}))
WHOLE = {"allocation_rule": "$pe_slots", "start_proc_args": "NONE", "stop_proc_args": "NONE"}
SPREAD = WHOLE | {"allocation_rule": "$round_robin"}


def lacking(situation: TransferSetupSituation) -> list[CheckFinding]:
    return [each for each in transfer_setup_findings(situation) if each.state != FindingSeverity.OK]


def edits(situation: TransferSetupSituation) -> list[tuple[str, str, str, str]]:
    made = (edit for each in lacking(situation) for edit in each.mend)
    return [(edit.verb.value, edit.name, edit.attribute, edit.value) for edit in made]


def wrong(situation: TransferSetupSituation) -> dict[str, FindingSeverity]:
    return {each.item: each.state for each in lacking(situation)}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ("lic=3", ["low.q"]),
        ("NONE,[alpha-n1=exclusive=1]", ["low.q", "low.q@alpha-n1"]),
        ("remote=FALSE,[alpha-n1=exclusive=1]", ["low.q@alpha-n1"]),
        ("gpu=1,remote=FALSE,[@big=gpu=2,lic=1],[n1=NONE]", ["low.q@@big", "low.q@n1"]),
        ("remote=FALSE,[alpha-n1=exclusive=1,remote=FALSE],[@big=remote=0]", []),
    ],
)
def test_every_complex_list_of_a_home_queue_gets_remote_false(values: str, names: list[str]) -> None:
    """A host-specific list replaces the default list with its remote=FALSE."""
    situation = at_home(a_ready_situation(), queues={"all.q": {}, "low.q": {"complex_values": values}})
    (queue,) = (finding for finding in transfer_setup_findings(situation) if finding.item == "queue low.q")

    assert (queue.state is FindingSeverity.OK, [edit.name for edit in queue.mend]) == (not names, names)
    assert [setup_edits.setup_edit_command(edit) for edit in queue.mend] == [
        f"qconf -mattr queue complex_values remote=FALSE {name}" for name in names
    ]
    assert all(name.partition("@")[2] in queue.found for name in names if names[0] != "low.q")


def test_removal_drops_remote_from_host_specific_lists_too() -> None:
    """Grid Engine removes no resource that a queue still has."""
    values = "remote=FALSE,[n1=exclusive=1,remote=FALSE],[n2=gpu=1]"
    situation = at_home(a_ready_situation(), queues={"low.q": {"complex_values": values}})
    dropped = [edit.name for edit in transfer_queue_removal_edits(situation, ()) if edit.value == "remote=FALSE"]

    assert dropped == ["low.q", "low.q@n1"]


def test_the_transfer_queue_gets_remote_true_on_its_host() -> None:
    own = "remote=TRUE,[tee=licence=1]"
    situation = a_ready_situation(complex_values=own)
    (edit,) = (each for each in edits(situation) if "remote=TRUE" in each)

    assert edit[:2] == ("merge into attribute", "transfer-beta@tee")


@pytest.mark.parametrize("host", ["global", "tee"])
def test_a_host_value_of_remote_is_dropped(host: str) -> None:
    hosts = {"global": {}, "tee": {}, host: {"complex_values": "remote=false"}}

    assert edits(at_home(a_ready_situation(), exec_hosts=hosts)) == [
        ("drop from attribute", host, "complex_values", "remote=false")
    ]


@pytest.mark.parametrize(
    ("row", "is_right"),
    [
        ("remote rm BOOL == YES NO 0 0", True),
        ("remote rm BOOL == FORCED NO 0 0", True),
        ("remote rm BOOL == NO NO 0 0", False),
        ("remote rm BOOL == YES YES 0 0", False),
        ("remote rm STRING == YES NO NONE 0", False),
    ],
)
def test_the_complex_remote_is_a_requestable_bool(row: str, is_right: bool) -> None:
    situation = a_ready_situation()
    keys = ("name", "shortcut", "type", "relation", "requestable", "consumable", "default")
    found = QconfComplexRow(**dict(zip((*keys, "urgency"), row.split(), strict=True)))

    judged = edits(at_home(situation, complexes={**situation.home.complexes, "remote": found}))

    assert (judged == []) == is_right


def test_a_pending_complex_with_the_wrong_relation_is_broken() -> None:
    situation = a_ready_situation()
    name = "gb_beta_pending"
    found = QconfComplexRow(name=name, shortcut=name, type="INT", relation="<=")

    judged = wrong(at_home(situation, complexes={**situation.home.complexes, name: found}))

    assert judged == {f"complex {name}": FindingSeverity.BROKEN}


def test_a_dash_in_a_cluster_name_becomes_an_underscore_in_complex_names() -> None:
    assert transfer_queue_load_thresholds("big-one", 1) == "gb_big_one_up=false,gb_big_one_pending=1"


def test_job_load_adjustments_of_every_transfer_queue_are_set_together() -> None:
    """Each set-up writes the whole list."""
    situation = a_ready_situation()
    other = {
        "seq_no": "200",
        "complex_values": "remote=TRUE",
        "load_thresholds": "gb_delta_up=false,gb_delta_pending=60",
    }
    queues = {**situation.home.queues, "transfer-delta": other}
    scheduler = {**situation.home.scheduler, "job_load_adjustments": "NONE"}
    made = edits(at_home(situation, queues=queues, scheduler=scheduler))

    assert [edit[3] for edit in made if edit[2] == "job_load_adjustments"] == ["gb_beta_pending=1,gb_delta_pending=1"]


def test_a_short_job_queue_has_no_pending_threshold() -> None:
    assert transfer_queue_load_thresholds("b", 0) == "gb_b_up=false"
    assert "damping" not in wrong(a_situation(wanted=replace(WANTED, pending_limit=0)))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("load_thresholds", "np_load_avg=1.75,gb_beta_up=false,gb_beta_pending=4"),
        ("qtype", "BATCH INTERACTIVE"),
        ("rerun", "FALSE"),
        ("slots", "11"),
        ("starter_method", "NONE"),
        ("suspend_thresholds", "np_load_avg=2"),
        ("h_rt", "1:00:00"),
        ("hostlist", "@allhosts"),
        ("seq_no", "0"),
    ],
)
def test_a_changed_attribute_of_the_transfer_queue_is_restored(attribute: str, value: str) -> None:
    situation = a_ready_situation(**{attribute: value})

    assert [(verb, name) for verb, _, name, _ in edits(situation)] == [("replace attribute", attribute)]


def test_a_time_in_another_spelling_is_equal() -> None:
    assert edits(a_ready_situation(notify="0:0:60")) == []


def test_a_new_transfer_queue_is_created_last_and_sorts_after_every_home_queue() -> None:
    verb, _, _, value = edits(a_situation(a_cell(queues={"big.q": {"seq_no": "0,[@a=300],[@b=200]"}})))[-1]

    assert verb == "add queue"
    assert "seq_no 310" in value.split("\n")


@pytest.mark.parametrize("chosen", ["70", "7", "0,[tee=7]"], ids=["last", "between", "here"])
def test_a_seq_no_chosen_by_hand_and_another_transfer_queue_are_kept(chosen: str) -> None:
    situation = a_ready_situation(seq_no=chosen)
    slow = {"seq_no": "50", "complex_values": "remote=FALSE"}
    others = {"slow.q": slow, "transfer-gamma": {"complex_values": "remote=1,x=2"}}

    assert edits(at_home(situation, queues=situation.home.queues | others)) == []


A_LICENSE = "lic lic INT <= YES YES 0 0"


def a_mapped_situation(row: str, **home: object) -> TransferSetupSituation:
    name = row.split()[0]
    situation = a_ready_situation(replace(WANTED, resources=(name,)))
    complexes = {**situation.home.complexes, **qconf_parser_and_edits.parse_complex_table(row.encode())}
    return at_home(situation, **{"complexes": complexes, **home})


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("gpu gpu BOOL == YES NO 0 0", "gpu=TRUE"),
        (A_LICENSE, "lic=9999999"),
        ("vmem vm MEMORY <= YES JOB 0 0", "vmem=9999T"),
        ("span s TIME <= YES NO 0 0", "span=99999:00:00"),
        ("few few INT >= YES NO 0 0", "few=0"),
    ],
    ids=["bool", "consumable", "memory", "time", "at most"],
)
def test_a_transfer_queue_offers_every_mapped_resource(row: str, value: str) -> None:
    """A job waits forever if it requests a resource for which the queue has no value."""
    situation = a_mapped_situation(row)
    new = at_home(situation, queues={"all.q": situation.home.queues["all.q"]})
    (made,) = [text for verb, *_, text in edits(new) if verb == "add queue"]

    name = row.split()[0]
    assert wrong(situation) == {f"queue transfer-beta: resource {name}": FindingSeverity.WARNING}
    assert edits(situation) == [("merge into attribute", "transfer-beta", "complex_values", value)]
    assert f"complex_values remote=TRUE,{value}" in made.splitlines()


@pytest.mark.parametrize(
    ("row", "home"),
    [
        (A_LICENSE, {"exec_hosts": {"global": {}, "tee": {"load_values": "lic=3"}}}),
        (A_LICENSE, {"exec_hosts": {"global": {"complex_values": "lic=3"}, "tee": {}}}),
        ("h_rt h_rt TIME <= YES NO 0 0", {}),
        ("hostname h HOST == YES NO 0 0", {}),
        ("big big BOOL == FORCED NO 0 0", {}),
        ("own own INT <= NO NO 0 0", {}),
        (A_LICENSE, {"complexes": a_ready_situation().home.complexes}),
    ],
    ids=["load", "global", "limit", "place", "forced", "not to be asked for", "unknown here"],
)
def test_resources_that_the_queue_need_not_offer(row: str, home: dict[str, object]) -> None:
    assert edits(a_mapped_situation(row, **home)) == []


def test_an_offered_value_is_kept_and_a_string_value_is_left_to_the_administrator() -> None:
    situation = a_mapped_situation(A_LICENSE)
    queue = {**situation.home.queues["transfer-beta"], "complex_values": "remote=TRUE,lic=2"}
    chosen = at_home(situation, queues={**situation.home.queues, "transfer-beta": queue})
    word = a_mapped_situation("model m RESTRING == YES NO NONE 0")
    (found,) = lacking(word)

    assert edits(chosen) == edits(word) == []
    assert found.hint == "qconf -mattr queue complex_values model=... transfer-beta"


@pytest.mark.parametrize(
    ("home", "away", "may_go"),
    [
        (WHOLE, WHOLE, True),
        (WHOLE, None, False),
        (SPREAD, WHOLE, False),
        (WHOLE, SPREAD, False),
        ({**WHOLE, "start_proc_args": "/bin/mpi start"}, WHOLE, False),
        ({**WHOLE, "stop_proc_args": "/bin/mpi stop"}, WHOLE, False),
    ],
    ids=["same", "unknown-there", "splits-jobs", "spreads-jobs-there", "starts-something", "stops-something"],
)
def test_only_a_single_host_environment_without_scripts_is_sendable(
    home: dict[str, str], away: dict[str, str] | None, may_go: bool
) -> None:
    situation = a_situation(a_cell(environments={"smp": home}), a_cell(environments={"smp": away} if away else {}))

    assert (sendable_parallel_environments(situation) == ("smp",)) == may_go


def test_an_environment_is_sendable_by_its_mapped_name_unless_rejected() -> None:
    cells = a_cell(environments={"smp": WHOLE}), a_cell(environments={"threads": WHOLE})
    renamed = replace(WANTED, renamed={"smp": "threads"})

    assert sendable_parallel_environments(a_situation(*cells, renamed)) == ("smp",)
    assert sendable_parallel_environments(a_situation(*cells)) == ()
    assert sendable_parallel_environments(a_situation(*cells, replace(renamed, rejected={"smp": "no"}))) == ()


def test_a_job_is_spread_over_remote_hosts_only_by_an_explicit_mapping() -> None:
    cells = a_cell(environments={"away": WHOLE}), a_cell(environments={"away": SPREAD})

    assert sendable_parallel_environments(a_situation(*cells)) == ()
    assert sendable_parallel_environments(a_situation(*cells, replace(WANTED, renamed={"away": "away"}))) == ("away",)


def test_an_unsendable_environment_in_pe_list_is_a_warning() -> None:
    situation = a_ready_situation(pe_list="mpi")

    assert wrong(situation) == {"queue transfer-beta: pe mpi": FindingSeverity.WARNING}
    assert edits(situation) == [("drop from attribute", "transfer-beta", "pe_list", "mpi")]


def test_load_sensors_of_the_cell_stay_configured_on_the_host() -> None:
    situation = at_home(
        a_ready_situation(),
        host={"load_report_time": "00:00:05"},
        common={"load_sensor": "/a,/b", "gid_range": "20000-20100"},
    )

    assert edits(situation) == [("set host configuration", "tee", "load_sensor", f"/a,/b,{SENSOR}")]


def test_execd_is_restarted_after_its_first_host_configuration() -> None:
    situation = at_home(a_ready_situation(), host=None)

    sensor = next(each for each in transfer_setup_findings(situation) if each.item == "load sensor")

    assert [edit.verb for edit in sensor.mend] == [SetupEditVerb.SET_HOST, SetupEditVerb.RESTART]


@pytest.mark.parametrize(
    ("gids", "needed", "used", "right"),
    [
        ("20000-20100", 150, frozenset(), "20000-20149"),
        ("65400-65500", 200, frozenset(), "20000-20199"),
        ("20000-20100", 150, frozenset({20120}), "20200-20349"),
        ("none", 10, frozenset(), "20000-20009"),
        ("none", 9_999_999_999, frozenset(), "65600-10000065598"),
    ],
    ids=["longer", "past-nogroup", "a-group-in-the-way", "none", "at-once-for-many"],
)
def test_a_widened_gid_range_avoids_existing_groups(gids: str, needed: int, used: frozenset[int], right: str) -> None:
    assert widen_gid_range(gids, needed, used) == right


def test_a_gid_range_smaller_than_the_slots_of_all_queues_of_the_host_is_broken() -> None:
    (finding,) = lacking(replace(a_ready_situation(), other_slots=90))

    assert (finding.item, finding.state) == ("gid_range", FindingSeverity.BROKEN)
    assert finding.mend[0].value == "20000-20119"
    assert finding.found == "gid_range 20000-20100: 101 free ids for 100 slots of all queues on the host"


@pytest.mark.parametrize(
    ("decay", "right"), [("0:7:30", "0:0:30"), ("0:0:0", "0:0:30"), ("0:2:0", "")], ids=["default", "off", "own"]
)
def test_only_a_default_decay_time_is_changed(decay: str, right: str) -> None:
    situation = a_ready_situation()
    scheduler = {**situation.home.scheduler, "load_adjustment_decay_time": decay}

    made = edits(at_home(situation, scheduler=scheduler))

    assert [value for *_, value in made] == ([right] if right else [])


def test_rights_of_a_non_admin_host_are_granted_on_the_master() -> None:
    situation = a_situation(away=a_cell(admin_hosts=(), submit_hosts=("TEE.example.org",)))

    places = {each.item: each.where for each in transfer_setup_findings(situation) if each.item.startswith("beta")}

    assert places == {
        "beta: admin host tee": "master",
        "beta: submit host tee": "",
        "beta: operator gridbridge": "master",
    }


def test_a_host_without_execd_gets_a_hint_only() -> None:
    situation = at_home(a_ready_situation(), exec_hosts={"global": {}})

    (found,) = lacking(situation)

    assert (found.item, found.mend) == ("host tee", ())
    assert "sge_execd" in found.hint


def test_load_values_missing_at_the_qmaster_are_broken() -> None:
    situation = a_ready_situation()
    reporting = at_home(situation, exec_hosts={"tee": {"load_values": "cpu=1,gb_beta_up=1"}})

    assert [each.state for each in unreported_load_value_findings(situation, PUBLISHING)] == [FindingSeverity.BROKEN]
    assert [each.state for each in unreported_load_value_findings(reporting, PUBLISHING)] == [FindingSeverity.OK]


def test_load_values_that_the_service_does_not_publish_are_a_warning() -> None:
    older = replace(PUBLISHING, values=frozenset({"gb_gamma_up"}))
    (found,) = unreported_load_value_findings(a_ready_situation(), older)

    assert (found.state, found.mend) == (FindingSeverity.WARNING, ())
    assert found.found == "the service publishes no gb_beta_up: the queue is closed"


@pytest.mark.parametrize(("for_s", "state"), [(9, FindingSeverity.WARNING), (11, FindingSeverity.BROKEN)])
def test_load_values_of_a_just_loaded_configuration_may_be_missing(for_s: float, state: FindingSeverity) -> None:
    known = ServiceConfigurationFacts(is_same=True, for_s=for_s)
    (found,) = unreported_load_value_findings(a_ready_situation(), replace(PUBLISHING, configuration=known))

    assert (found.state, bool(found.mend)) == (state, state == FindingSeverity.BROKEN)


@pytest.mark.parametrize(
    ("age_s", "state"), [(3.2, FindingSeverity.WARNING), (9, FindingSeverity.WARNING), (11, FindingSeverity.BROKEN)]
)
def test_a_just_started_execd_may_not_have_reported(age_s: float, state: FindingSeverity) -> None:
    """An execd reports within two load report times."""
    execd = RunningExecd(pid=7, program="/usr/sbin/sge_execd", age_s=age_s)
    (found,) = unreported_load_value_findings(replace(a_ready_situation(), execd=execd), PUBLISHING)

    assert (found.state, bool(found.mend)) == (state, state == FindingSeverity.BROKEN)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({"complex_values": "NONE", "starter_method": "NONE"}, True),
        ({"complex_values": "remote=FALSE", "starter_method": "/site/starter"}, True),
        ({"complex_values": "remote=TRUE", "starter_method": "NONE"}, False),
        ({"complex_values": "remote=FALSE"}, False),
    ],
    ids=["own", "own-starter", "without-starter", "says-false"],
)
def test_a_foreign_queue_of_the_same_name_is_recognised(queue: dict[str, str], expected: bool) -> None:
    assert is_existing_non_transfer_queue(a_ready_situation(**queue)) == expected


def removed(situation: TransferSetupSituation) -> list[tuple[str, str]]:
    made = transfer_queue_removal_edits(situation, ())
    return [(edit.verb.value, edit.name or edit.attribute) for edit in made]


def test_removal_drops_the_queue_first_and_then_all_settings() -> None:
    situation = a_ready_situation()
    unused = QconfComplexRow(name="gb_g_up", shortcut="gb_g_up", type="BOOL", relation="==")
    situation = at_home(situation, complexes={**situation.home.complexes, "gb_g_up": unused})

    assert [edit for edit in removed(situation) if edit[0] != "run"] == [
        ("drop queue", "transfer-beta"),
        ("set host configuration", "tee"),
        ("drop host configuration", "tee"),
        ("set scheduler", "job_load_adjustments"),
        ("drop from attribute", "all.q"),
        *(
            ("drop complex", f"{name}")
            for name in ("remote", "gb_beta_up", "gb_beta_pending", "gb_beta_free", "gb_g_up")
        ),
    ]


def test_removal_restores_only_settings_unchanged_since_setup() -> None:
    def undo(attribute: str, ours: str, former: str) -> SharedSettingUndo:
        done = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value=ours)
        back = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value=former)
        return SharedSettingUndo(done=done, undo=back)

    former = (undo("queue_sort_method", "seqno", "load"), undo("load_adjustment_decay_time", "0:1:0", "0:7:30"))

    made = [edit.value for edit in transfer_queue_removal_edits(a_ready_situation(), former) if edit.attribute]

    assert "load" in made
    assert "0:7:30" not in made


@pytest.mark.parametrize(
    ("thresholds", "also"),
    [("gb_beta_up=0,gb_beta_pending=5", []), ("gb_g_up=0", [("set scheduler", "job_load_adjustments")])],
    ids=["of the same cluster", "of another cluster"],
)
def test_removal_keeps_what_another_transfer_queue_needs(thresholds: str, also: list[tuple[str, str]]) -> None:
    """The sensor reports load values while another queue needs them."""
    situation = a_ready_situation()
    other = {"complex_values": "remote=TRUE", "hostlist": "tee", "load_thresholds": thresholds}
    with_other = at_home(situation, queues={**situation.home.queues, "transfer-2": other})

    assert removed(with_other) == [("drop queue", "transfer-beta"), *also]


@pytest.mark.parametrize(
    ("reported", "waits"), [("arch=lx-amd64,gb_beta_up=1", True), ("arch=lx-amd64", False)], ids=["still", "no more"]
)
def test_a_repeated_removal_awaits_the_end_of_load_values(reported: str, waits: bool) -> None:
    """Grid Engine removes no complex that a host reports; a removal may end before its values have expired."""
    hosts = {"global": {}, "tee": {"load_values": reported}}
    situation = at_home(a_ready_situation(), host={"load_sensor": "none"}, exec_hosts=hosts)
    verbs = [edit.verb for edit in transfer_queue_removal_edits(situation, ())]

    assert (SetupEditVerb.SHELL in verbs) == waits
    assert SetupEditVerb.SHELL not in verbs[verbs.index(SetupEditVerb.DROP_COMPLEX) :]


@pytest.mark.parametrize(
    ("operators", "expected"),
    [((), {"beta: operator gb": FindingSeverity.WARNING}), (("gb",), {})],
    ids=["ordinary", "operator"],
)
def test_a_cluster_by_ssh_gets_findings_and_no_edits(
    operators: tuple[str, ...], expected: dict[str, FindingSeverity]
) -> None:
    """The hosts of such a cluster are their own submit and admin hosts."""
    ready = a_ready_situation()
    far = a_cell(operators=operators, submit_hosts=(), admin_hosts=())
    situation = replace(ready, wanted=replace(ready.wanted, far_account="gb"), away=far)

    assert (wrong(situation), edits(situation)) == (expected, [])


@pytest.mark.parametrize(
    ("is_wanted", "epilog"),
    [(False, "/opt/gridbridge/sge-methods/epilog"), (True, "root@/opt/gridbridge/sge-methods/usage")],
)
def test_the_epilog_runs_as_root_only_for_remote_usage(is_wanted: bool, epilog: str) -> None:
    wanted = replace(WANTED, remote_usage=is_wanted)

    assert transfer_queue_attributes(a_situation(wanted=wanted))["epilog"] == epilog


@pytest.mark.parametrize(
    ("pe_list", "made"),
    [
        ("smp", []),
        ("NONE,[tee=smp]", [("merge into attribute", "transfer-beta", "pe_list", "smp")]),
        ("smp,[tee=NONE]", [("merge into attribute", "transfer-beta@tee", "pe_list", "smp")]),
        ("smp,[@big=smp mpi]", [("drop from attribute", "transfer-beta@@big", "pe_list", "mpi")]),
        (
            "smp mpi,[tee=mpi]",
            [
                ("drop from attribute", "transfer-beta", "pe_list", "mpi"),
                ("drop from attribute", "transfer-beta@tee", "pe_list", "mpi"),
                ("merge into attribute", "transfer-beta@tee", "pe_list", "smp"),
            ],
        ),
    ],
)
def test_every_host_specific_pe_list_is_corrected(pe_list: str, made: list[tuple[str, ...]]) -> None:
    """A host-specific list replaces the default list on its host."""
    cells = {"smp": WHOLE, "mpi": SPREAD}
    situation = at_home(a_ready_situation(pe_list=pe_list), environments=cells)
    situation = replace(situation, away=replace(situation.away, environments=cells))

    assert edits(situation) == made


@pytest.mark.parametrize(
    ("rerun", "names"),
    [
        ("TRUE,[tee=FALSE]", ["transfer-beta@tee"]),
        ("FALSE,[@big=FALSE],[tee=true]", ["transfer-beta", "transfer-beta@@big"]),
    ],
)
def test_a_host_specific_value_is_corrected_on_its_host(rerun: str, names: list[str]) -> None:
    """Such a value stays when the default is replaced (seen on 8.1.9)."""
    made = edits(a_ready_situation(rerun=rerun))

    assert made == [("replace attribute", name, "rerun", "TRUE") for name in names]
