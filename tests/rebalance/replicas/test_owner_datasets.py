"""A person's datasets over areas that are folders here: a replica counts only when it is whole."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from gridbridge.errors import GridbridgeError, StorageAreaUnreachable
from gridbridge.model.rebalance.datasets import REPLICA_MARK
from gridbridge.model.transfer_route import SshLogin
from gridbridge.rebalance.replicas import dataset_records_and_originals as recorded
from gridbridge.rebalance.replicas import owner_datasets, owner_replica_copies_and_checks, storage_area_shell_scripts
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetCommandOutcome
from gridbridge.rebalance.replicas.storage_area_shell_scripts import AREA_MARK
from tests.rebalance.mover.areas import DIED, NAMES, Site

TREE = {"a.txt", "deep/b\nc", "deep/link"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def whole(outcome: DatasetCommandOutcome) -> set[str]:
    return set(outcome.dataset.areas_with_whole_replica)


def entries(site: Site, storage: str) -> list[str]:
    return sorted(set(os.listdir(site.areas[storage].own)) - {AREA_MARK})


def reasons(outcome: DatasetCommandOutcome) -> dict[str, str]:
    return {one.what: one.reason for one in outcome.refused}


def test_a_tree_gets_as_many_replicas_as_wished_with_all_of_its_files(site: Site) -> None:
    done = site.datasets.add("reads", site.tree(), 2)

    assert (True, 2) == (done.is_done, len(whole(done)))
    for storage in whole(done):
        top = site.replica(storage, "reads")
        found = {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()}
        assert TREE | {REPLICA_MARK} == found
        assert ("one", False) == ((top / "deep/link").read_text(), (top / "deep/link").is_symlink())


def test_folders_may_lie_in_each_other_as_deep_as_a_path_is_long(site: Site) -> None:
    """Some programs make a folder in a folder a thousand times."""
    deep = f"{site.tree()}/{'d/' * 1100}"
    subprocess.run(["mkdir", "-p", deep], check=True)
    Path(deep, "c.txt").write_text("three")
    try:
        done = site.datasets.add("reads", f"{site.folder}/reads", 1, is_later=True)
    finally:
        subprocess.run(["rm", "-r", f"{site.folder}/reads/d"], check=True)

    assert (4, 14) == (done.dataset.files, done.dataset.size_bytes)


def test_a_file_is_a_dataset_too(site: Site) -> None:
    (site.folder / "ref.fa").write_text("ACGT")

    done = site.datasets.add("ref", f"{site.folder}/ref.fa", 1)

    (storage,) = whole(done)
    assert "ACGT" == (site.replica(storage, "ref") / "ref.fa").read_text()
    assert (1, 4, False) == (done.dataset.files, done.dataset.size_bytes, done.dataset.is_tree)


def test_the_same_is_told_by_the_next_command(site: Site) -> None:
    done = site.datasets.add("reads", site.tree(), 2)

    assert [done.dataset] == site.datasets.listed()
    assert whole(done) == whole(site.datasets.verify("reads"))


def test_a_copy_that_dies_does_not_count_and_the_next_call_goes_on(site: Site) -> None:
    site.carrier.dies_after = 1
    done = site.datasets.add("reads", site.tree(), 1)
    (begun,) = (name for name in NAMES if (site.replica(name, ".reads.part") / "a.txt").exists())

    assert (False, set()) == (done.is_done, whole(done))
    assert {DIED} == set(reasons(done).values())
    assert not any(site.replica(name, "reads").exists() for name in NAMES)

    site.carrier.dies_after, site.carrier.carried = -1, []
    again = site.datasets.replicate("reads", begun)

    assert {begun} == whole(again)
    assert ["deep/b\nc", "deep/link"] == sorted(site.carrier.carried)
    assert not site.replica(begun, ".reads.part").exists()


def test_what_arrives_wrong_is_carried_again(site: Site) -> None:
    site.carrier.spoils = {"a.txt"}

    done = site.datasets.add("reads", site.tree(), 1)

    assert done.is_done
    assert 2 == site.carrier.carried.count("a.txt")


def test_an_original_that_changes_meanwhile_makes_no_replica(site: Site) -> None:
    tree = site.tree()
    site.datasets.add("reads", tree, 1)
    Path(tree, "a.txt").write_text("another")
    for name in NAMES:
        if site.replica(name, "reads").exists():
            (site.replica(name, "reads") / "a.txt").unlink()

    done = site.datasets.replicate("reads")

    assert (False, set()) == (done.is_done, whole(done))
    assert f"no replica is whole, and {tree} has changed since `gridbridge data add`" in reasons(done).values()


@pytest.mark.parametrize(
    ("logins", "is_there", "source", "times"),
    [
        ("", True, "original", 1),
        ("alpha-disk beta-disk gamma-disk", True, "original", 1),
        ("alpha-disk beta-disk gamma-disk", False, "first", 1),
        ("alpha-disk gamma-disk", True, "beta-disk", 0),
    ],
    ids=["no replica", "by ssh, good original", "by ssh, bad original", "one is here"],
)
def test_the_original_is_read_once_at_most(
    site: Site, monkeypatch: pytest.MonkeyPatch, logins: str, is_there: bool, source: str, times: int
) -> None:
    """A whole replica that is seen here comes first, and then the original before any by ssh."""
    asked: list[str] = []
    monkeypatch.setattr(
        owner_datasets.dataset_records_and_originals,
        "files_match_checksums",
        lambda path, _: bool(asked.append(path)) or is_there,
    )
    monkeypatch.setattr(storage_area_shell_scripts, "storage_area_with_account_folder", lambda area: area)
    done = site.datasets.add("reads", site.tree(), len(NAMES)).dataset
    for name in logins.split():
        login = SshLogin(host=name, user="me")
        site.areas[name] = replace(site.areas[name], login=login)

    found = site.datasets._replicas._folder_to_copy_from(done if logins else replace(done, replicas=()), {})

    places = {name: f"{area.own}/reads" for name, area in site.areas.items()}
    places |= {"original": done.path, "first": places[done.areas_with_whole_replica[0]]}  # where most is free
    assert (places[source], times) == (found.folder, len(asked))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("rm a.txt", "a.txt is missing"),
        ("echo x >a.txt", "a.txt has another checksum"),
        ("echo x >new", "new is unexpected"),
        ("rm -r deep", r"'deep/b\nc' is missing, deep/link is missing"),
        ("rm -r deep a.txt", "a.txt is missing, 'deep/b\\nc' is missing and 1 more"),
        ("ln -s a.txt l", "the replica contains something that is neither a file nor a folder"),
        ("rm -r $PWD", "the replica is gone"),
        ("rm -r $PWD && ln -s / $PWD", "this folder, or the replica inside, is a link or belongs to another account"),
        ("rm -r ${PWD%/*}", "the folder is gone; is the filesystem mounted?"),
        ("rm -r ${PWD%/*/*}", "no such folder"),
    ],
)
def test_what_happens_behind_our_back_is_seen_and_mended(site: Site, spoil: str, why: str) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    hurt = min(whole(before))
    subprocess.run(["sh", "-c", spoil], cwd=site.replica(hurt, "reads"), check=True)

    seen = site.datasets.verify("reads")
    told = {one.storage: one.why for one in seen.dataset.replicas}

    assert (False, whole(before) - {hurt}) == (seen.is_done, whole(seen))
    assert why in told[hurt]

    mended = site.datasets.replicate("reads")

    assert (True, 2) == (mended.is_done, len(whole(mended)))


def test_an_altered_replica_is_repaired_where_it_is(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    hurt = min(whole(before))
    (site.replica(hurt, "reads") / "a.txt").write_text("x")

    assert whole(before) == whole(site.datasets.replicate("reads"))
    assert "one" == (site.replica(hurt, "reads") / "a.txt").read_text()
    assert ["reads"] == entries(site, hurt)


def test_a_killed_exchange_leaves_the_new_one_to_be_put_in_place(site: Site) -> None:
    """Between the two renames there is no replica; what was carried is not carried again."""
    (storage,) = whole(site.datasets.add("reads", site.tree(), 1))
    own = Path(site.areas[storage].own)
    (own / "reads").rename(own / ".reads.part")
    (own / ".reads.old").mkdir()
    site.carrier.carried = []

    done = site.datasets.replicate("reads")

    assert ({storage}, []) == (whole(done), site.carrier.carried)
    assert ["reads"] == entries(site, storage)


def test_what_an_earlier_copy_left_is_not_part_of_the_replica(site: Site) -> None:
    part = Path(f"{site.areas['beta-disk'].own}/.reads.part")
    part.mkdir(parents=True)
    (part / ".a.txt.Xy12Zz").write_text("half")
    (part / REPLICA_MARK).write_text("reads\n")

    done = site.datasets.add("reads", site.tree(), 3)

    assert set(NAMES) == whole(done)
    assert whole(done) == whole(site.datasets.verify("reads"))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@AS_ROOT
@pytest.mark.root
def test_an_area_that_fills_meanwhile_gets_none_and_another_one_does(site: Site, small: Path) -> None:
    """It has room when it is measured."""
    site.areas["beta-disk"] = replace(site.areas["beta-disk"], path=str(small))
    (site.folder / "big").write_bytes(os.urandom(700_000))
    site.rules = replace(site.rules, disk_share=1.0)
    filler = small / "filler"
    carry = site.carrier.__call__

    def fill(*words: object) -> None:
        if str(small) in str(words[1]):
            filler.write_bytes(b"x" * 500_000)
        try:
            carry(*words)  # type: ignore[arg-type]
        except OSError as error:
            raise full(error) from error

    site.carrier = fill  # type: ignore[assignment]
    done = site.datasets.add("big", f"{site.folder}/big", 3)

    assert (False, {"alpha-disk", "gamma-disk"}) == (done.is_done, whole(done))
    assert "No space left on device" in reasons(done)["beta-disk"]
    assert not site.replica("beta-disk", "big").exists()


def full(error: OSError) -> Exception:
    from gridbridge.errors import CommandFailed

    return CommandFailed(("rsync",), 11, stderr=str(error.strerror).encode())


@AS_ROOT
@pytest.mark.root
def test_a_read_only_area_gets_none(site: Site, small: Path) -> None:
    site.areas["beta-disk"] = replace(site.areas["beta-disk"], path=str(small))
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)

    done = site.datasets.add("reads", site.tree(), 3)

    assert "the area is read-only" == reasons(done)["beta-disk"]


def test_the_room_of_an_account_can_be_limited(site: Site) -> None:
    site.areas = {
        name: replace(area, max_bytes=5 if name == "beta-disk" else 10**9) for name, area in site.areas.items()
    }

    done = site.datasets.add("reads", site.tree(), 3)

    assert "9 B are more than the 3 B that one copy may take (disk_share)" == reasons(done)["beta-disk"]


def test_an_area_that_others_can_take_away_is_not_used(site: Site) -> None:
    Path(site.areas["beta-disk"].path).chmod(0o777)

    done = site.datasets.add("reads", site.tree(), 3)

    assert "not sticky" in reasons(done)["beta-disk"]


MAKERS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("/etc"),
    "file": Path.touch,
    "pipe": os.mkfifo,
}


def take(site: Site, kind: str = "folder", storage: str = "beta-disk") -> Path:
    """Have somebody else make the folder of the account in an area first; return it."""
    own = Path(site.areas[storage].own)
    MAKERS[kind](own)
    os.chown(own, 65534, 65534, follow_symlinks=False)
    return own


def others_of(own: Path) -> list[Path]:
    """Return what the account has in its area instead."""
    return sorted(path for path in own.parent.iterdir() if path.name.startswith(f"{own.name}."))


@AS_ROOT
@pytest.mark.parametrize("kind", MAKERS)
def test_a_folder_of_somebody_elses_is_not_used(site: Site, kind: str) -> None:
    own = take(site, kind)

    done = site.datasets.add("reads", site.tree(), 3)
    (other,) = others_of(own)

    assert (3, {}) == (len(whole(done)), reasons(done))
    assert kind != "folder" or [] == os.listdir(own)
    assert (other / "reads/a.txt").read_text() == "one"
    assert [0o700, os.geteuid()] == [other.stat().st_mode & 0o777, other.stat().st_uid]


@AS_ROOT
def test_a_folder_under_another_name_is_used_as_any(site: Site) -> None:
    own = take(site)
    site.datasets.add("reads", site.tree(), 3)
    (other,) = others_of(own)
    (other / "reads/a.txt").write_text("spoilt")
    repaired = site.datasets.replicate("reads")
    text = (other / "reads/a.txt").read_text()
    shutil.rmtree(site.folder / "reads")
    own.rmdir()
    verified = site.datasets.verify("reads")
    again = site.datasets.add("more", site.tree(), 3)
    dropped = site.datasets.drop("reads", "beta-disk")

    assert (3, "one", 3) == (len(whole(repaired)), text, len(whole(verified)))
    assert (3, False) == (len(whole(again)), own.exists())
    assert "beta-disk" not in whole(dropped)
    assert ["more"] == [path.name for path in other.iterdir() if not path.name.startswith(".")]


@AS_ROOT
def test_names_that_somebody_makes_like_ours_count_for_nothing(site: Site) -> None:
    own = take(site)
    like_ours = own.with_name(f"{own.name}.00000000-0000-0000-0000-000000000000")
    like_ours.mkdir()
    (like_ours / storage_area_shell_scripts.AREA_MARK).write_text("beta-disk\n")
    os.chown(like_ours, 65534, 65534)
    own.with_name(f"{own.name}.11111111-0000-0000-0000-000000000000").symlink_to(site.folder)
    done = site.datasets.add("reads", site.tree(), 3)

    assert (3, {}) == (len(whole(done)), reasons(done))
    assert [storage_area_shell_scripts.AREA_MARK] == os.listdir(like_ours)
    assert 3 == len(others_of(own))


@AS_ROOT
def test_copies_that_begin_at_the_same_moment_use_one_folder(site: Site) -> None:
    own = take(site)
    area = site.areas["beta-disk"]
    dataset = site.datasets.add("reads", site.tree(), 1, is_later=True).dataset
    with ThreadPoolExecutor(8) as threads:
        several = [replace(dataset, name=f"reads{n}") for n in range(8)]
        begun = [
            threads.submit(storage_area_shell_scripts.prepare_new_replica_folder, area, one, is_known=False)
            for one in several
        ]
        for one in begun:
            one.result()
    (other,) = others_of(own)

    assert storage_area_shell_scripts.storage_area_with_account_folder(area).own == str(other)
    assert len([*other.glob(".reads*.part")]) == 8


@AS_ROOT
def test_a_link_of_somebody_elses_keeps_no_original_from_being_added(site: Site) -> None:
    own = Path(site.areas["beta-disk"].own)
    own.symlink_to(site.folder)
    os.chown(own, 65534, 65534, follow_symlinks=False)

    assert 3 == len(whole(site.datasets.add("reads", site.tree(), 3)))


@AS_ROOT
def test_an_original_in_a_folder_under_another_name_is_refused(site: Site) -> None:
    own = take(site)
    site.datasets.add("reads", site.tree(), 3)
    (other,) = others_of(own)

    with pytest.raises(GridbridgeError, match="beta-disk keeps replicas in"):
        site.datasets.add("more", str(other / "reads"), 1)


def test_a_replica_is_dropped_but_never_the_last_whole_one(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    one, last = sorted(whole(before))

    assert {last} == whole(site.datasets.drop("reads", one))
    assert not site.replica(one, "reads").exists()
    with pytest.raises(GridbridgeError, match=f"{last}: the last whole replica of reads"):
        site.datasets.drop("reads", last)
    assert {last} == whole(site.datasets.verify("reads"))


def test_what_may_be_the_last_whole_replica_stays_while_nobody_can_read_it(site: Site) -> None:
    """A check that gets no answer does not say that there is none; a lost one is forgotten."""
    before = site.datasets.add("reads", site.tree(), 2)
    last, gone = sorted(whole(before))
    site.replica(gone, "reads").rename(site.folder / "moved")
    shutil.rmtree(site.folder / "reads")
    with pytest.MonkeyPatch.context() as during:
        during.setattr(storage_area_shell_scripts, "checksum_replica", _unanswered)
        for name in (last, gone):
            with pytest.raises(GridbridgeError, match=f"{name}: the last whole .*no answer"):
                site.datasets.drop("reads", name)
        assert site.datasets.drop("reads", gone, is_lost=True).is_done

    assert {last} == whole(site.datasets.verify("reads"))
    with pytest.raises(GridbridgeError, match=f"{last}: the last whole replica of reads;"):
        site.datasets.drop("reads", last, is_lost=True)
    (site.replica(last, "reads") / "a.txt").write_text("x")
    assert site.datasets.drop("reads", last).is_done


def _unanswered(*_: object, **__: object) -> NoReturn:
    raise StorageAreaUnreachable("no answer in time")


def test_a_dropped_dataset_is_gone_and_its_original_is_not(site: Site) -> None:
    tree = site.tree()
    before = site.datasets.add("reads", tree, 2)

    assert site.datasets.drop("reads").is_done
    assert [] == site.datasets.listed()
    assert not any(site.replica(name, "reads").exists() for name in whole(before))
    assert "one" == Path(tree, "a.txt").read_text()


def test_a_replica_that_can_not_be_removed_is_kept_in_mind_until_it_is_lost(site: Site) -> None:
    site.datasets.add("reads", site.tree(), 3)
    del site.areas["gamma-disk"]

    done = site.datasets.drop("reads")

    assert (False, ("gamma-disk",)) == (done.is_done, site.datasets.listed()[0].storages)
    assert "--lost forgets the replica" in reasons(done)["gamma-disk"]
    assert site.datasets.drop("reads", is_lost=True).is_done
    assert [] == site.datasets.listed()


def test_what_was_in_an_area_that_is_removed_counts_no_more_and_can_be_forgotten(site: Site) -> None:
    left = min(whole(site.datasets.add("reads", site.tree(), 2)))
    there = site.replica(left, "reads")
    site.areas = {name: one for name, one in site.areas.items() if name != left}

    seen = site.datasets.verify("reads")
    made = site.datasets.replicate("reads")
    kept = site.datasets.drop("reads", left)
    lost = site.datasets.drop("reads", left, is_lost=True)

    told = {one.storage: one.why for one in seen.dataset.replicas}
    assert (False, "gridbridge.toml no longer has this storage area") == (seen.is_done, told[left])
    assert (True, set(NAMES) - {left}) == (made.is_done, whole(made))
    assert (False, True) == (kept.is_done, left in kept.dataset.storages)
    assert "--lost forgets the replica" in reasons(kept)[left]
    assert (True, set(NAMES) - {left}) == (lost.is_done, set(lost.dataset.storages))
    assert there.exists()


def test_an_area_is_drained_once_enough_is_whole_elsewhere(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    left = min(whole(before))

    (done,) = site.datasets.drain(left)

    assert (True, set(NAMES) - {left}) == (done.is_done, whole(done))
    assert not site.replica(left, "reads").exists()
    assert [] == list(site.datasets.drain(left))


def test_an_area_that_an_administrator_drains_gets_no_replica(site: Site) -> None:
    for name in ("alpha-disk", "beta-disk"):
        site.areas[name] = replace(site.areas[name], is_drained=True)

    done = site.datasets.add("reads", site.tree(), 2)
    asked = site.datasets.replicate("reads", "beta-disk")
    (left,) = site.datasets.drain("gamma-disk")

    assert isinstance(left, DatasetCommandOutcome)
    for one in (done, asked, left):
        assert (False, {"gamma-disk"}) == (one.is_done, whole(one))
        assert owner_replica_copies_and_checks.DRAINED == reasons(one)["beta-disk"]


def test_what_has_no_other_place_stays_in_an_area_that_is_drained(site: Site) -> None:
    site.datasets.add("reads", site.tree(), 3)

    (done,) = site.datasets.drain("beta-disk")

    assert not done.is_done
    assert "2 of 3 replicas are whole in other areas: the replica stays" == reasons(done)["beta-disk"]
    assert site.replica("beta-disk", "reads").exists()
    assert set(NAMES) == set(site.datasets.listed()[0].storages)


def test_one_that_can_not_be_removed_from_a_drained_area_is_kept_in_mind(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 1)
    (left,) = whole(before)
    gone = Path(site.areas[left].path)
    gone.rename(f"{gone}.away")

    (done,) = site.datasets.drain(left)

    assert (False, 1) == (done.is_done, len(whole(done)))
    assert left in site.datasets.listed()[0].storages
    Path(f"{gone}.away").rename(gone)
    assert [True] == [one.is_done for one in site.datasets.drain(left)]
    assert not site.replica(left, "reads").exists()


def test_a_replica_that_was_spoilt_elsewhere_does_not_let_the_drained_one_go(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    left, other = sorted(whole(before))
    (site.replica(other, "reads") / "a.txt").write_text("x")
    site.carrier.dies_after = 0

    (done,) = site.datasets.drain(left)

    assert not done.is_done
    assert "one" == (site.replica(left, "reads") / "a.txt").read_text()


def test_only_so_many_copies_go_into_an_area_at_once(site: Site) -> None:
    records = site.datasets.records
    with (
        records.dataset_lock("x"),
        records.copy_slot_of_area("beta-disk", 2),
        records.copy_slot_of_area("beta-disk", 2),
    ):
        done = site.datasets.add("reads", site.tree(), 3)

    assert "2 of your copies into this area run; copies_at_once allows no more" == reasons(done)["beta-disk"]
    assert site.datasets.replicate("reads").is_done


def test_two_commands_do_not_work_on_a_dataset_at_once(site: Site) -> None:
    site.datasets.add("reads", site.tree(), 1)
    with site.datasets.records.dataset_lock("reads"), pytest.raises(GridbridgeError, match="wait for it"):
        site.datasets.replicate("reads")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "a b", "a\nb", "ä", "x" * 101])
def test_odd_names_are_refused_with_what_is_right(site: Site, name: str) -> None:
    for act in (site.datasets.verify, site.datasets.replicate, site.datasets.drop):
        with pytest.raises(GridbridgeError, match="no name of a dataset; expected letters, digits"):
            act(name)
    with pytest.raises(GridbridgeError, match="no name of a dataset; expected letters, digits"):
        site.datasets.add(name, site.tree(), 1)
    assert not (site.folder / "records").exists()


@pytest.mark.parametrize("wished", [0, -1, 101])
def test_an_odd_number_of_replicas_is_refused(site: Site, wished: int) -> None:
    with pytest.raises(GridbridgeError, match="expected 1 to 100"):
        site.datasets.add("reads", site.tree(), wished)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("rm -r a.txt deep", "has no file"),
        ("ln -s nowhere l", "No such file or directory"),
        ("ln -s . l", "a symlink to a folder above"),
        ("mkfifo f", "neither a file nor a folder"),
        ("rm -r $PWD", "No such file or directory"),
    ],
)
def test_what_is_no_dataset_is_refused_and_nothing_is_noted(site: Site, spoil: str, why: str) -> None:
    tree = site.tree()
    subprocess.run(["sh", "-c", spoil], cwd=tree, check=True)

    with pytest.raises(GridbridgeError, match=why):
        site.datasets.add("reads", tree, 1)
    assert [] == site.datasets.listed()


def test_more_files_than_their_checksums_can_be_read_of_are_refused_before_the_first_copy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = site.tree()
    size = sum(64 + len("  ./") + len(name) + 1 for name in TREE)
    monkeypatch.setattr(recorded, "MOST_SUMS", size - 1)
    with pytest.raises(GridbridgeError, match="reads: the checksums of 3 files take"):
        site.datasets.add("reads", tree, 1)
    was = (site.datasets.listed(), site.carrier.carried)
    monkeypatch.setattr(recorded, "MOST_SUMS", size)

    assert ([], []) == was
    assert site.datasets.add("reads", tree, 1).is_done
    assert site.datasets.verify("reads").is_done


@AS_ROOT
def test_a_tree_of_somebody_elses_is_refused(site: Site) -> None:
    tree = site.tree()
    os.chown(tree, 65534, 65534)

    with pytest.raises(GridbridgeError, match="owned by another account"):
        site.datasets.add("reads", tree, 1)


@AS_ROOT
def test_a_record_that_somebody_else_put_there_is_not_read(site: Site) -> None:
    before = site.datasets.add("reads", site.tree(), 2)
    os.chown(f"{site.folder}/records/reads.json", 65534, 65534)

    with pytest.raises(GridbridgeError, match="owned by uid 65534"):
        site.datasets.drop("reads")
    assert all(site.replica(name, "reads").exists() for name in whole(before))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": "other", "replicas": []}', "\0"])
def test_a_record_that_is_none_is_told_in_a_line(site: Site, text: str) -> None:
    site.datasets.add("reads", site.tree(), 1)
    Path(site.folder, "records/reads.json").write_text(text)

    with pytest.raises(GridbridgeError, match="invalid record of a dataset"):
        site.datasets.verify("reads")


def test_checksums_that_are_not_those_of_the_record_are_not_used(site: Site) -> None:
    site.datasets.add("reads", site.tree(), 1)
    Path(site.folder, "records/reads.sums").write_bytes(b"")

    with pytest.raises(GridbridgeError, match="not the checksums of reads"):
        site.datasets.verify("reads")


def test_unknown_names_are_told_with_those_that_there_are(site: Site) -> None:
    with pytest.raises(GridbridgeError, match="nothing: no dataset of yours; yours: none"):
        site.datasets.verify("nothing")
    site.datasets.add("reads", site.tree(), 1)
    with pytest.raises(GridbridgeError, match="nothing: no dataset of yours; yours: reads"):
        site.datasets.drop("nothing")
    with pytest.raises(GridbridgeError, match="x: no storage area; expected alpha-disk or beta-disk or"):
        site.datasets.replicate("reads", "x")
    with pytest.raises(GridbridgeError, match="x: no storage area"):
        list(site.datasets.drain("x"))
    with pytest.raises(GridbridgeError, match="you already have a dataset of this name"):
        site.datasets.add("reads", f"{site.folder}/reads", 1)


def test_one_wrong_record_keeps_no_other_dataset_from_being_copied(site: Site) -> None:
    site.datasets.add("reads", site.tree(), 1)
    Path(site.folder, "records/wrong.json").write_text("?")

    assert set(NAMES) == {name for to in NAMES for name in whole(site.datasets.replicate("reads", to))}
    assert site.datasets.drop("reads").is_done


def test_folders_that_can_not_be_written_are_replaced_and_removed(site: Site) -> None:
    (storage,) = whole(site.datasets.add("reads", site.tree(), 1))
    (site.replica(storage, "reads") / "deep").chmod(0o500)
    (site.replica(storage, "reads") / "a.txt").write_text("x")

    assert {storage} == whole(site.datasets.replicate("reads", storage))
    assert ["reads"] == entries(site, storage)
