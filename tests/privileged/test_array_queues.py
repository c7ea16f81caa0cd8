"""The queue and parallel environment of a campaign's array at a cluster with transfer queues."""

from pathlib import Path

import pytest

from gridbridge.model.fixed_paths import REFUSED_THERE
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.names_offered_by_cluster import (
    NamesOfferedByCluster,
    NonForwardingQueues,
    encode_non_forwarding_queues,
    encode_offered_names,
)
from gridbridge.privileged.as_user_refusals_and_user_switch import STATUS, JobNeverAcceptedByCluster
from gridbridge.privileged.campaign_owner_cluster_calls import choose_array_parallel_env, keep_array_off_transfer_queues


def publish(folder: Path, queues: NonForwardingQueues) -> None:
    (folder / "stays").mkdir()
    (folder / "stays/beta").write_bytes(encode_non_forwarding_queues(queues))


def test_an_array_is_kept_off_transfer_queues(tmp_path: Path) -> None:
    publish(tmp_path, NonForwardingQueues(queues="all.q", all_say="yes"))
    spec = JobSpec(transfer="gc.alpha.1.1", request=JobRequest(), tasks=3)

    kept = keep_array_off_transfer_queues(spec, "beta", str(tmp_path))

    assert (kept.request.stays, kept.tasks) == (True, 3)
    assert keep_array_off_transfer_queues(spec, "gamma", str(tmp_path)) is spec


def test_an_array_that_names_a_transfer_queue_is_refused(tmp_path: Path) -> None:
    """The tasks of such an array could run at a third cluster."""
    publish(tmp_path, NonForwardingQueues(queues="all.q", all_say="yes"))
    spec = JobSpec(transfer="gc.alpha.1.1", request=JobRequest(targets="transfer-alpha"), tasks=3)

    with pytest.raises(JobNeverAcceptedByCluster, match=r"^queue transfer-alpha is a transfer queue"):
        keep_array_off_transfer_queues(spec, "beta", str(tmp_path))
    assert STATUS[JobNeverAcceptedByCluster] == REFUSED_THERE


def wide(nodes: int, each: int, pe: str = "") -> JobSpec:
    request = JobRequest(groups=((nodes, each),))
    return JobSpec(transfer="gc.alpha.1.1", request=request, slots=nodes * each, tasks=3, pe=pe)


def offer(folder: Path, *rules: str) -> str:
    (folder / "vocabularies").mkdir()
    (folder / "vocabularies/beta").write_bytes(encode_offered_names(NamesOfferedByCluster(rule=frozenset(rules))))
    return str(folder)


def test_the_slots_of_a_node_get_an_environment_on_one_host(tmp_path: Path) -> None:
    """An environment that the JDL names is kept."""
    folder = offer(tmp_path, "mpi=$round_robin", "smp=$pe_slots", "pairs=2")

    assert choose_array_parallel_env(wide(1, 2), "beta", folder).pe == "smp"
    assert choose_array_parallel_env(wide(3, 2), "beta", folder).pe == "pairs"
    assert choose_array_parallel_env(wide(1, 2, "mpi"), "beta", folder).pe == "mpi"
    assert choose_array_parallel_env(wide(1, 1), "beta", folder).pe == ""
    assert choose_array_parallel_env(wide(1, 2), "gamma", folder).pe == ""


@pytest.mark.parametrize(("nodes", "rule"), [(1, r"\$pe_slots or 4"), (2, "4")])
def test_a_cluster_without_a_fitting_environment_refuses_the_array(tmp_path: Path, nodes: int, rule: str) -> None:
    folder = offer(tmp_path, "mpi=$round_robin")

    with pytest.raises(JobNeverAcceptedByCluster, match=f"^no parallel environment .*{rule} \\(slots a host: 4\\)"):
        choose_array_parallel_env(wide(nodes, 4), "beta", folder)
