"""What gridbridge.toml has to say besides the queue's own section."""

import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.site.section import all_slots, findings, removal, room
from gridbridge.model.cluster import Cluster
from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy, Poller, Site, TransferQueue
from gridbridge.model.site.setup import State
from gridbridge.model.users import Asks
from tests.decisions.site.setups import WANTED

POLICY = Policy(
    site=Site(cluster="alpha"),
    clusters={"alpha": Cluster(qmaster_port=1, execd_port=2)},
    queues={
        "transfer-beta": TransferQueue(cluster="beta", pending_limit=1, slots=200),
        "transfer-gamma": TransferQueue(cluster="gamma", pending_limit=1, slots=300),
    },
    poller=Poller(spool_files_per_uid=2000),
)


@pytest.mark.parametrize(("slots", "state"), [(500, State.OK), (501, State.WARNING)])
def test_the_spool_has_room_for_four_messages_a_slot(slots: int, state: State) -> None:
    assert room(POLICY, slots).state == state


def test_a_spool_without_room_has_its_remedy() -> None:
    found = room(POLICY, 600)

    assert found.found == "2000, too few for 600 transfer slots of one user"
    assert found.right == "2400 at least"
    assert found.hint.startswith("set it in [poller]")


def test_one_user_may_fill_all_transfer_queues_as_they_are_or_will_be() -> None:
    assert all_slots(POLICY) == 500
    assert all_slots(POLICY, WANTED) == 310


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_section_is_rewritten_with_the_epilog_that_was_asked_for(is_wanted: bool) -> None:
    (found,) = findings(POLICY, replace(WANTED, remote_usage=is_wanted))
    (edit,) = found.mend

    assert ("remote_usage = false" in edit.value) != is_wanted


def test_what_people_wrote_into_a_section_stays(tmp_path: Path) -> None:
    """Whether it is a key or a table of its own; the lines are run as setup would."""
    toml = tmp_path / "gridbridge.toml"
    toml.write_text(
        '[site]\ncluster = "alpha"\n'
        '[queue.transfer-beta]  # to beta\ncluster = "beta"\nslots = 9\nrecall_wait_s = 5.0\n'
        '[queue.transfer-beta.asks]\nmem_free = "64G"\n[poller]\n'
    )
    queue = replace(
        POLICY.queues["transfer-beta"], recall_wait_s=5.0, asks=Asks({"mem_free": "64G"})
    )
    (found,) = findings(replace(POLICY, queues={"transfer-beta": queue}), WANTED)
    (edit,) = found.mend
    subprocess.run(["sh", "-c", edit.value.replace(CONFIG, str(toml))], check=True)

    assert tomllib.loads(toml.read_text()) == {
        "site": {"cluster": "alpha"},
        "poller": {},
        "queue": {
            "transfer-beta": {
                "cluster": "beta",
                "pending_limit": WANTED.pending_limit,
                "slots": WANTED.slots,
                "asks": {"mem_free": "64G"},
                "recall_wait_s": 5.0,
            }
        },
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("\n# to gamma\n  # it is far\n[queue.b]\n", None, id="the next one's"),
        pytest.param("# recall_wait_s = 5\n\n[queue.b]\n", "[queue.b]\n", id="its own"),
        pytest.param("# a\nx = 1\n# b\n[queue.b]\n# c\n", "# b\n[queue.b]\n# c\n", id="both"),
        pytest.param("# a\n[queue.transfer-beta.asks]\ny = 1\n", "", id="of its asks, the last"),
        pytest.param("[queue.transfer-beta-big]\n", "[queue.transfer-beta-big]\n", id="alike"),
        pytest.param("  [queue.b]\nx = 1\n", "  [queue.b]\nx = 1\n", id="indented"),
        pytest.param('  ["cluster".b]\nx = 1\n', '  ["cluster".b]\nx = 1\n', id="quoted"),
        pytest.param('[queue.transfer-beta."asks"]\nx = 1\n', "", id="its asks, quoted"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_comment_above_the_next_section_stays_with_that(
    tmp_path: Path, before: str, after: str | None
) -> None:
    toml, head = tmp_path / "gridbridge.toml", "# the site\n[site]\n# to beta\n"
    toml.write_text(f'{head}[queue.transfer-beta]  # ours\ncluster = "beta"\n{before}')
    (edit,) = removal(POLICY, WANTED)
    subprocess.run(["sh", "-c", edit.value.replace(CONFIG, str(toml))], check=True)

    assert toml.read_text() == head + (before.lstrip("\n") if after is None else after)


@pytest.mark.parametrize(
    "title",
    [
        pytest.param("[ queue . transfer-beta ]\n", id="blanks"),
        pytest.param("  [queue.transfer-beta] # ours\n", id="indented"),
        pytest.param('[queue."transfer-beta"]\n', id="quoted"),
        pytest.param("[queue.'transfer-beta']\r\n", id="of another system"),
    ],
)
def test_a_section_is_found_however_its_title_is_written(tmp_path: Path, title: str) -> None:
    toml, rest = tmp_path / "gridbridge.toml", "  [ queue.b ]\nslots = 1\n"
    toml.write_text(f'{title}cluster = "beta"\n[queue. transfer-beta .asks]\nx = 1\n{rest}')
    (edit,) = removal(POLICY, WANTED)
    subprocess.run(["sh", "-c", edit.value.replace(CONFIG, str(toml))], check=True)

    assert toml.read_text() == rest


def test_keys_that_setup_does_not_write_stay_as_they_are() -> None:
    """An administrator's own keys are no fault, and are kept when the section is written anew."""
    known = TransferQueue(
        cluster=WANTED.remote,
        pending_limit=WANTED.pending_limit,
        slots=WANTED.slots,
        stage_out="res%2C1",
        recall_wait_s=5,
    )
    policy = replace(POLICY, queues={WANTED.queue: known})
    (kept,) = findings(policy, WANTED)
    (mended,) = findings(replace(POLICY, queues={WANTED.queue: replace(known, slots=9)}), WANTED)

    assert kept.state == State.OK
    assert all(
        line in mended.mend[0].value for line in ("'stage_out = \"res%2C1\"'", "recall_wait_s = 5")
    )
