"""Job requests and transfer names are values; resources are known by names and shortcuts."""

import pytest

from gridbridge.errors import ParseError
from gridbridge.model import light_dataclass
from gridbridge.model.job_request import FAR_S, JobRequest, is_home_only_resource, resource_long_name
from gridbridge.model.transfer_name import TransferAttemptId, is_transfer_name, parse_transfer_name


def test_a_changed_request_leaves_the_original_unchanged() -> None:
    asked = JobRequest(hard=(("arch", "x"),), project="p")
    changed = asked.with_changes(hard=())

    assert (asked.hard, changed.hard, changed.project) == ((("arch", "x"),), (), "p")


def test_a_pinned_job_keeps_its_own_queues_in_its_context() -> None:
    pinned = JobRequest(context=(("gridbridge_queues", "all.q short.q"),), queues="transfer-beta")

    assert (pinned.owner_requested_queues, pinned.is_pinned_to_transfer_queue) == ("all.q,short.q", True)
    assert JobRequest(queues="all.q").owner_requested_queues == "all.q"


def test_a_deferred_job_keeps_its_own_start_time_in_its_context() -> None:
    own = JobRequest(start=1767225600)
    deferred = own.with_changes(start=FAR_S, context=(("gridbridge_start", "1767225600"),))

    assert (own.is_deferred, deferred.is_deferred) == (False, True)
    assert (own.owner_requested_start, deferred.owner_requested_start) == (1767225600, 1767225600)


@light_dataclass(kw_only=True)
class Pair:
    first: int
    second: str = "two"


def test_a_missing_keyword_has_its_default() -> None:
    assert vars(Pair(first=1)) == {"first": 1, "second": "two"}


@pytest.mark.parametrize("values", [{}, {"first": 1, "third": 3}], ids=["missing", "unknown"])
def test_missing_and_unknown_keywords_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Pair(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"), [("h", "hostname"), ("hostname", "hostname"), ("mf", "mem_free"), ("gpu", "gpu")]
)
def test_a_resource_shortcut_becomes_its_long_name(name: str, expected: str) -> None:
    assert resource_long_name(name) == expected


@pytest.mark.parametrize("name", ["h", "q", "hostname", "qname", "remote", "gb_beta_up"])
def test_home_only_resources_are_recognised_by_name_and_shortcut(name: str) -> None:
    assert is_home_only_resource(name)
    assert not is_home_only_resource("mf")


def test_a_transfer_name_survives_writing_and_parsing() -> None:
    transfer = TransferAttemptId("alpha-2", 12, 3, 1)

    assert str(transfer) == "gb.alpha-2.12.3.1"
    assert parse_transfer_name(str(transfer)) == transfer


@pytest.mark.parametrize(("task", "expected"), [(0, "12"), (3, "12.3")], ids=["a plain job", "an array's task"])
def test_the_local_job_of_a_transfer_is_written_as_in_grid_engine(task: int, expected: str) -> None:
    assert TransferAttemptId("alpha", 12, task, 1).local_job_or_task_id == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gb.alpha.1.1",
        "gb.alpha.1.1.1.1",
        "xx.alpha.1.1.1",
        "gb.Alpha.1.1.1",
        "gb..1.1.1",
        "gb.al/pha.1.1.1",
        "gb.alpha.-1.1.1",
        "gb.alpha.one.1.1",
        "gb.alpha.\u0661.1.1",
        "gb.alpha.9999999999.1.1",
    ],
    ids=repr,
)
def test_a_malformed_transfer_name_is_refused(name: str) -> None:
    with pytest.raises(ParseError):
        parse_transfer_name(name)

    assert not is_transfer_name(name)
