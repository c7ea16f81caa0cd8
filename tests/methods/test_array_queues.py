"""What a campaign's array asks for at a cluster that has transfer queues of its own."""

from pathlib import Path

import pytest

from gridbridge.methods.arrays.queues import kept_there
from gridbridge.methods.owner import STATUS, RefusedThere
from gridbridge.model.places import REFUSED_THERE
from gridbridge.model.request import JobSpec, Request
from gridbridge.model.vocabulary import LocalQueues, encode_queues


def publish(folder: Path, queues: LocalQueues) -> None:
    (folder / "stays").mkdir()
    (folder / "stays/beta").write_bytes(encode_queues(queues))


def test_it_asks_for_queues_that_send_nothing_on(tmp_path: Path) -> None:
    publish(tmp_path, LocalQueues(queues="all.q", all_say="yes"))
    spec = JobSpec(transfer="gc.alpha.1.1", request=Request(), tasks=3)

    kept = kept_there(spec, "beta", str(tmp_path))

    assert (kept.request.stays, kept.tasks) == (True, 3)
    assert kept_there(spec, "gamma", str(tmp_path)) is spec


def test_one_that_names_a_queue_that_sends_on_is_refused_there(tmp_path: Path) -> None:
    """Its tasks may run at another cluster."""
    publish(tmp_path, LocalQueues(queues="all.q", all_say="yes"))
    spec = JobSpec(transfer="gc.alpha.1.1", request=Request(targets="transfer-alpha"), tasks=3)

    with pytest.raises(RefusedThere, match=r"^queue transfer-alpha: sends its jobs on"):
        kept_there(spec, "beta", str(tmp_path))
    assert STATUS[RefusedThere] == REFUSED_THERE
