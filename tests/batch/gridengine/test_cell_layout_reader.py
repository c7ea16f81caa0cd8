"""Tests of a cell's configuration and hosts as printed by qconf, qstat and qhost 8.1.9 or written by hand."""

import json
import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import execution_hosts
from gridbridge.batch.gridengine.cell_configuration_reader import (
    host_resources_to_query,
    parse_cell_configuration,
    waiting_arrays_in_qstat,
)
from gridbridge.batch.gridengine.cell_demand_reader import parse_cell_demand, parse_qhost, query_demand_outputs
from gridbridge.batch.gridengine.qstat_xml_parser import parse_array_concurrency_limits
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.elastic.grid_engine_cell import (
    CellResourceDefinition,
    ConsumableKind,
    GridEngineCellSnapshot,
    GridEngineUserList,
    JobAccessIdentity,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RequestedValueComparison,
)
from gridbridge.model.qconf_attribute_parser import parse_qconf_values_by_host
from tests.batch.gridengine.cells import cell_of_scripts, fake_cell
from tests.builders.golden import CAPTURED
from tests.builders.qstat import job_list, job_row, queue_row

HOSTS = b"<qhost><host name='n1'/></qhost>"
BARE = b"<qhost><host name='n5'/></qhost>"  # host n5 is in no queue


def layout(**told: object) -> bytes:
    return json.dumps(told).encode()


LAYOUT = parse_cell_configuration(fake_cell("by_hand.json").encode())


def test_resources_are_indexed_by_name_and_shortcut() -> None:
    assert LAYOUT.resources["vmem"] is LAYOUT.resources["h_vmem"]
    assert LAYOUT.resources["h_vmem"] == CellResourceDefinition(
        name="h_vmem", shortcut="vmem", counted=ConsumableKind.BY_SLOT, default="1G"
    )
    assert LAYOUT.resources["exclusive"].relation is RequestedValueComparison.EXCLUSIVE
    assert LAYOUT.resources["licence"].counted is ConsumableKind.BY_JOB
    assert LAYOUT.resources["remote"].is_forced


def test_allocation_rules_are_parsed_as_slot_distributions() -> None:
    assert list(LAYOUT.environments.values()) == [
        ParallelEnvironment(name="smp", spread=ParallelSlotDistribution.ONE_HOST, slots=99),
        ParallelEnvironment(name="mpi", spread=ParallelSlotDistribution.ANY_HOSTS, slots=40),
        ParallelEnvironment(name="pairs", spread=ParallelSlotDistribution.FIXED, per_host=2),
    ]


def test_a_host_group_includes_hosts_of_nested_groups() -> None:
    """Two groups may include each other."""
    assert LAYOUT.groups == {"@all": {"n1", "n8", "n9"}, "@big": {"n8", "n9", "n1"}}
    assert LAYOUT.groups_of_host("n9") == {"@all", "@big"}
    assert LAYOUT.add_enclosing_groups(frozenset(("@big",))) == {"@all", "@big"}
    assert LAYOUT.hosts_with_queue == {"n1", "n8", "n9"}


def test_queue_settings_are_parsed_for_each_host() -> None:
    assert LAYOUT.queues["all.q"].hosts == ("@all",)
    assert LAYOUT.queues["all.q"].with_values_of_host("n8", {"@all", "@big"}).environments == ("smp", "mpi")
    assert LAYOUT.queues["all.q"].with_values_of_host("n1", {"@all"}).environments == ("smp",)
    assert dict(LAYOUT.queues["all.q"].values) == {"h_rt": "24:0:0"}
    assert (LAYOUT.queues["all.q"].is_away, LAYOUT.queues["far"].is_away) == (False, True)


@pytest.mark.parametrize(
    ("text", "expected"), [("1", "1"), ("1,[@big=8]", "8"), ("1,[@big=8],[n1=2]", "2"), ("1, [n2=3]", "1")]
)
def test_a_hosts_own_value_takes_precedence_over_its_groups_value(text: str, expected: str) -> None:
    assert expected == parse_qconf_values_by_host(text).value_at_host("n1", {"@big"})


def test_an_empty_configuration_table_has_no_queues() -> None:
    assert not parse_cell_configuration(b"").queues


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (b"[", "not JSON: "),
        (b"[]", "configuration: []; expected a table with complexes, environments, "),
        (layout(queue={}), "queue: unknown key; expected complexes, "),
        (layout(queues=[]), "queues: []; expected a table of tables"),
        (layout(queues={"q": 3}), "queues.q: 3; expected a table of texts"),
        (layout(hostgroups={"@a": None}), "hostgroups.@a: null; expected a text, a number, or a list"),
        (layout(environments={"smp": {"slots": "many"}}), 'environments.smp.slots: "many"; expected a whole number'),
        (layout(deferred=["x"]), 'deferred: "x"; expected a whole number'),
    ],
    ids=["json", "list", "key", "table", "text", "null", "number", "job"],
)
def test_an_invalid_table_is_refused_with_key_and_expected_value(told: bytes, expected: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_cell_configuration(told)

    assert str(error.value).startswith(expected)


def cell(*rows: tuple[int, str, str, str], running: tuple[str, ...] = ()) -> GridEngineCellSnapshot:
    leafs = {"JB_owner": "alice", "JB_submission_time": "2026-01-01T12:00:00"}
    jobs = (job_row(number, state, more, JB_name=name, **leafs) for number, name, state, more in rows)
    return parse_cell_demand(job_list(*jobs, queues=running), BARE, UTC, LAYOUT)


def test_campaign_tasks_are_grouped_apart_from_other_jobs() -> None:
    names = ("a", "campaign.12", "gc.alpha.12.1", "campaign.x", "gc.alpha")
    seen = cell(*((number, name, "qw", "") for number, name in enumerate(names, 1))).waiting

    assert [(one.jobs, one.is_campaign) for one in seen] == [((1, 4, 5), False), ((2, 3), True)]


def test_deferred_and_dependent_jobs_cannot_start() -> None:
    seen = cell(
        (6, "a", "qw", ""), (7, "a", "qw", ""), (9, "a", "hqw", "<predecessor_jobs>6</predecessor_jobs>")
    ).waiting

    assert [(one.jobs, one.can_start, one.is_dependent) for one in seen] == [
        ((6,), True, False),
        ((7,), False, False),
        ((9,), False, True),
    ]


def test_an_array_concurrency_limit_caps_the_waiting_tasks() -> None:
    runs = queue_row("all.q@n1", 1, 4, job_row(8, "r"))
    (seen,) = cell((8, "a", "qw", "<tasks>2-9:1</tasks>"), running=(runs,)).waiting

    assert (seen.tasks, seen.capped) == (8, 7)


def test_a_parallel_task_uses_environment_slots_and_an_exclusive_host() -> None:
    more = "<granted_pe name='mpi'>6</granted_pe><hard_request name='exclusive'>TRUE</hard_request>"
    seen = cell(running=(queue_row("all.q@n1", 3, 4, job_row(5, "r", more, slots=3)),))

    assert (seen.granted, seen.instances[0].is_taken) == ((("mpi", 3),), True)


def test_jobs_of_equal_request_are_counted_by_owner_and_name() -> None:
    (seen,) = cell((4, "a", "qw", "<tasks>1-9:2</tasks>"), (6, "b", "qw", "")).waiting

    assert seen.kinds == (("alice", "a", 5), ("alice", "b", 1))


def test_qhost_values_are_split_into_free_consumables_and_others() -> None:
    whole, host = parse_qhost(fake_cell("consumables.xml").encode())

    assert (whole.name, whole.left) == ("global", (("licence", "3.000000"),))
    assert (host.left, host.values) == ((("h_vmem", "6.000G"),), (("arch", "lx-amd64"),))


def test_global_values_count_for_hosts_without_own_value() -> None:
    """complex(5) describes this rule."""
    value = "<resourcevalue name='color' dominance='{}'>{}</resourcevalue>".format
    rows = (("global", value("gf", "red")), ("n1", ""), ("n2", value("hf", "blue")))
    hosts = "".join(f"<host name='{name}'>{text}</host>" for name, text in rows)

    found = parse_cell_demand(job_list(), f"<qhost>{hosts}</qhost>".encode()).hosts

    assert [(host.name, host.values) for host in found] == [("n1", (("color", "red"),)), ("n2", (("color", "blue"),))]


ANSWERS = {name: fake_cell(name) for name in ("qstat", "qrstat", "qhost", "qconf")}


def test_the_demand_query_reads_the_whole_cell_configuration(tmp_path: Path) -> None:
    documents, master = query_demand_outputs(cell_of_scripts(tmp_path, **ANSWERS))
    found = parse_cell_configuration(documents["qconf.json"])

    assert (master, found.deferred, set(found.queues)) == ("n1", {7}, {"all.q", "b.q"})
    assert found.groups == {"@all": {"n1", "n2"}}
    assert found.environments["smp"].spread is ParallelSlotDistribution.ONE_HOST
    assert [one.name for one in parse_qhost(documents["qhost.xml"])] == ["-F", "arch,h_vmem"]
    assert host_resources_to_query(b"", documents["qconf.json"]) == ("arch", "h_vmem")
    first, array = parse_cell_demand(documents["qstat.xml"], documents["qhost.xml"], UTC, found).waiting
    assert not first.can_start
    assert (found.user_lists, found.projects, first.shape.identity) == ({}, None, JobAccessIdentity())
    assert (array.tasks, array.capped) == (996, 992)
    assert found.promised == {"all.q@n1": 1}


CHECKPOINTS = "-sckptl) echo blcr;;"
SHOWN_LIST = '-su) printf \'name %s\\ntype ACL\\nentries alice,@%s\\n\' "$2" "$2";;'
LISTS = {
    "qconf": ANSWERS["qconf"]
    .replace("pe_list smp\\n", "pe_list smp\\nuser_lists staff,[n1=guests]\\nprojects NONE,[@all=p1]\\n")
    .replace("-sckptl) echo no ckpt interface definition defined; exit 1;;", CHECKPOINTS)
    .replace("-sss)", f"{SHOWN_LIST}\n-sss)"),
    "qstat": fake_cell("qstat_with_owners"),
}


def test_the_demand_query_reads_user_lists_projects_groups_and_checkpoints(tmp_path: Path) -> None:
    documents, _ = query_demand_outputs(cell_of_scripts(tmp_path, **ANSWERS | LISTS))
    found = parse_cell_configuration(documents["qconf.json"])

    assert found.user_lists == {name: GridEngineUserList(entries=("alice", f"@{name}")) for name in ("guests", "staff")}
    assert found.projects == {7: "p1"}
    assert (found.owners_groups, found.checkpoints) == ({7: "users", 8: "users"}, {8: "blcr"})
    rows = parse_cell_demand(documents["qstat.xml"], documents["qhost.xml"], UTC, found).waiting
    assert [one.shape.identity for one in rows] == [
        JobAccessIdentity(owner="bob", group="users", project="p1"),
        JobAccessIdentity(owner="bob", group="users", project="", checkpoint="blcr"),
    ]


def test_a_truncated_list_of_projects_is_a_parse_error(tmp_path: Path) -> None:
    ended = (ANSWERS | LISTS)["qstat"].replace("*-ext*) echo '<job_info>", "*-ext*) echo '<job_info><job_list>")

    with pytest.raises(ParseError, match=r"^qstat: broken XML"):
        query_demand_outputs(cell_of_scripts(tmp_path, **ANSWERS | LISTS | {"qstat": ended}))


@pytest.mark.parametrize(
    ("hosts", "is_whole"), [("@all", False), ("n1.example.org", False), ("n2", True), ("NONE", True)]
)
def test_an_answer_without_queue_instances_is_no_idle_cell(hosts: str, is_whole: bool) -> None:
    table = {"hostgroups": {"@all": ["n3", "n1"]}, "queues": {"all.q": {"hostlist": hosts}}}
    configuration = parse_cell_configuration(layout(**table))

    if is_whole:
        assert parse_cell_demand(job_list(), HOSTS, UTC, configuration).instances == ()
        return
    with pytest.raises(ParseError, match="no queue on any host"):
        parse_cell_demand(job_list(), HOSTS, UTC, configuration)


def test_waiting_arrays_are_listed_by_number_of_tasks() -> None:
    tasks = ((1, "qw", "1-3:1"), (2, "hqw", "1-9:1"), (3, "qw", "5"), (4, "Rqw", "1,7-9:1"), (5, "r", "1"))
    rows = (job_row(job, state, tasks=ranges) for job, state, ranges in tasks)

    assert waiting_arrays_in_qstat(job_list(*rows)) == [4, 1]


def test_concurrency_limits_are_parsed_for_several_jobs() -> None:
    job = "<element><JB_job_number>{}</JB_job_number><JB_ja_task_concurrency>{}</{}></element>"
    rows = "".join(job.format(*one, "JB_ja_task_concurrency") for one in ((3, 0), (4, 2), (5, 7)))

    assert parse_array_concurrency_limits(f"<djob_info>{rows}</djob_info>".encode()) == {4: 2, 5: 7}


def test_a_parallel_task_on_several_hosts_counts_once_for_the_limit() -> None:
    queues = (queue_row(f"all.q@{host}", 1, 1, job_row(8, "r", tasks=1)) for host in ("n1", "n2"))
    qstat = job_list(job_row(8, slots=2, tasks="2-6:1"), queues=queues)
    qhost = b"<qhost><host name='n1'/><host name='n2'/></qhost>"
    seen = parse_cell_demand(qstat, qhost, UTC, parse_cell_configuration(b'{"concurrency": {"8": 3}}'))

    assert (seen.waiting[0].tasks, seen.waiting[0].capped) == (5, 3)


BEST_EFFORT = b'<resource name="gb_besteffort" type="qc">1</resource>'


def golden(name: str) -> bytes:
    return (CAPTURED / f"{name}.xml").read_bytes()


NEW = execution_hosts.HostQueueInstance(queue="all.q", slots=4, is_used=False, is_disabled=True)
BUSY = execution_hosts.HostQueueInstance(queue="all.q", slots=2, is_used=True, is_disabled=True, tasks=("5",))


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("host-busy", b"", b"", BUSY),
        ("host-busy", b"<slots>1</slots>", b"<slots>1</slots><tasks>7</tasks>", replace(BUSY, tasks=("5.7",))),
        ("host-busy", b"<slots_used>1<", b"<slots_used>0<", BUSY),
        ("host-busy", b"<state>", BEST_EFFORT + b"<state>", replace(BUSY, is_best_effort=True)),
        ("host-new", b"", b"", NEW),
        ("host-new", b"<slots_used>0<", b"<slots_used>1<", replace(NEW, is_used=True)),
        ("host-new", b"<slots_resv>0<", b"<slots_resv>2<", replace(NEW, is_used=True)),
        ("host-new", b"<state>du", b"<state>D", replace(NEW, is_disabled=False)),
    ],
    ids=[
        *("task", "array task", "suspended task without slot", "best-effort"),
        *("no task", "starting task", "reserved", "closed by a calendar"),
    ],
)
def test_a_host_queue_instance_is_parsed(
    name: str, old: bytes, new: bytes, expected: execution_hosts.HostQueueInstance
) -> None:
    data = golden(name)
    changed = data.replace(old, new, 1) if old else data

    assert changed != data or not old
    assert execution_hosts.parse_host_queue_instances(changed) == (expected,)


def test_control_characters_in_a_job_name_do_not_break_parsing() -> None:
    told = golden("host-busy")
    odd = re.sub(rb"<JB_name>[^<]*<", b"<JB_name>a\x1b & b<", told)

    assert odd != told
    assert execution_hosts.parse_host_queue_instances(odd) == execution_hosts.parse_host_queue_instances(told)


@pytest.mark.parametrize("ending", ["kill -9 $$", "exit 2", "echo no >&2; exit 1"])
def test_a_failed_qstat_does_not_mean_that_a_host_has_no_queue(tmp_path: Path, ending: str) -> None:
    """The program qstat exits with 1 and prints nothing if no queue instance exists."""
    assert execution_hosts.query_host_queue_instances(cell_of_scripts(tmp_path, qstat="exit 1"), "n1") == ()

    with pytest.raises(CommandFailed):
        execution_hosts.query_host_queue_instances(cell_of_scripts(tmp_path, qstat=ending), "n1")


@pytest.mark.parametrize(
    ("host", "expected"), [("alpha-n1", True), ("alpha-n", False), ("global", False), ("alpha-n9", False)]
)
def test_a_host_is_up_if_qhost_prints_its_load(host: str, expected: bool) -> None:
    assert execution_hosts.has_execd_reported_load(golden("hosts"), host) == expected


def test_truncated_output_about_a_host_is_refused() -> None:
    half = golden("host-busy")[:400]

    with pytest.raises(ParseError, match="qstat"):
        execution_hosts.parse_host_queue_instances(half)
    with pytest.raises(ParseError, match="qhost"):
        execution_hosts.has_execd_reported_load(half, "alpha-n1")


@pytest.mark.parametrize(
    ("told", "others", "expected"),
    [
        ("0", (), 1),
        ("0", (100, 0), 1),
        ("0,[n1=1],[n3=3]", (100,), 2),
        ("10,[n1=11]", (0, 20), 12),
        ("0,[n1=1],[n2=2]", (3,), 2),  # the last hosts share a seq_no
        ("0", (1,), None),  # no seq_no is left before the next queue
        ("0,[@site=5],[n1=6]", (100,), 7),  # behind the hosts of a group with a seq_no
        ("0,[@site=5]", (3, 9), 6),
    ],
)
def test_a_new_hosts_seq_no_lies_between_earlier_hosts_and_the_next_queue(
    told: str, others: tuple[int, ...], expected: int | None
) -> None:
    assert expected == execution_hosts.next_queue_seq_no(parse_qconf_values_by_host(told), others)


TOLD = """<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'><hostvalue name='arch_string'>-</hostvalue></host>
 <host name='n1'>{}</host>
 <host name='n2'><hostvalue name='num_proc'>2</hostvalue></host>
</qhost>
"""
VALUE = "<resourcevalue name='gb_tags' dominance='hf'>{}</resourcevalue>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", {}),
        (VALUE.format("htools:standby:auto"), {"n1": ("htools:standby:auto",)}),
        (VALUE.format("htools:standby:3+other"), {"n1": ("htools:standby:3", "other")}),
    ],
)
def test_host_tags_are_parsed_from_qhost(value: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert execution_hosts.parse_cell_host_tags(TOLD.format(value).encode()) == expected
