"""One person's datasets in storage areas that are local folders; only whole replicas count."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.errors import CommandFailed, GridbridgeError, StorageAreaUnreachable
from gridbridge.model.rebalance.datasets import REPLICA_MARK
from gridbridge.model.transfer_route import SshLogin
from gridbridge.rebalance.replicas import dataset_records_and_originals as recorded
from gridbridge.rebalance.replicas import owner_datasets, owner_replica_copies_and_checks, storage_area_shell_scripts
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas
from gridbridge.rebalance.replicas.storage_area_shell_scripts import prepare_new_replica_folder
from tests.builders.mounts import memory_mounted
from tests.rebalance.mover.areas import DIED, NAMES, Site, reasons

TREE = {"a.txt", "deep/b\nc", "deep/link"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def whole(outcome: DatasetAndRefusedAreas) -> set[str]:
    return set(outcome.dataset.areas_with_whole_replica)


def test_a_folder_tree_gets_the_requested_number_of_replicas_with_all_files(site: Site) -> None:
    done = site.datasets.add_dataset("reads", site.tree(), 2)

    assert (True, 2) == (done.is_done, len(whole(done)))
    assert [done.dataset] == site.datasets.list_datasets()
    for storage in whole(done):
        top = site.replica(storage, "reads")
        found = {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()}
        assert TREE | {REPLICA_MARK} == found
        assert ("one", False) == ((top / "deep/link").read_text(), (top / "deep/link").is_symlink())


def test_an_original_may_contain_a_thousand_nested_folders(site: Site) -> None:
    """Some programs make such folders."""
    deep = f"{site.tree()}/{'d/' * 1100}"
    subprocess.run(["mkdir", "-p", deep], check=True)
    Path(deep, "c.txt").write_text("three")
    try:
        done = site.datasets.add_dataset("reads", f"{site.folder}/reads", 1, is_later=True)
    finally:
        subprocess.run(["rm", "-r", f"{site.folder}/reads/d"], check=True)

    assert (4, 14) == (done.dataset.files, done.dataset.size_bytes)


def test_a_single_file_can_be_a_dataset(site: Site) -> None:
    (site.folder / "ref.fa").write_text("ACGT")

    done = site.datasets.add_dataset("ref", f"{site.folder}/ref.fa", 1)

    (storage,) = whole(done)
    assert "ACGT" == (site.replica(storage, "ref") / "ref.fa").read_text()
    assert (1, 4, False) == (done.dataset.files, done.dataset.size_bytes, done.dataset.is_tree)


def test_a_failed_copy_is_no_replica_and_is_continued_by_the_next_command(site: Site) -> None:
    site.carrier.dies_after = 1
    done = site.datasets.add_dataset("reads", site.tree(), 1)
    (begun,) = (name for name in NAMES if (site.replica(name, ".reads.part") / "a.txt").exists())

    assert (False, set()) == (done.is_done, whole(done))
    assert {DIED} == set(reasons(done).values())
    assert not any(site.replica(name, "reads").exists() for name in NAMES)

    site.carrier.dies_after, site.carrier.carried = -1, []
    again = site.datasets.replicate_dataset("reads", begun)

    assert {begun} == whole(again)
    assert ["deep/b\nc", "deep/link"] == sorted(site.carrier.carried)
    assert not site.replica(begun, ".reads.part").exists()


def test_a_file_that_arrives_with_a_wrong_checksum_is_copied_again(site: Site) -> None:
    site.carrier.spoils = {"a.txt"}

    done = site.datasets.add_dataset("reads", site.tree(), 1)

    assert done.is_done
    assert 2 == site.carrier.carried.count("a.txt")


def test_no_replica_is_made_from_a_changed_original(site: Site) -> None:
    tree = site.tree()
    site.datasets.add_dataset("reads", tree, 1)
    Path(tree, "a.txt").write_text("another")
    for name in NAMES:
        if site.replica(name, "reads").exists():
            (site.replica(name, "reads") / "a.txt").unlink()

    done = site.datasets.replicate_dataset("reads")

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
def test_the_source_of_a_copy_is_a_local_replica_then_the_original_then_a_remote_replica(
    site: Site, monkeypatch: pytest.MonkeyPatch, logins: str, is_there: bool, source: str, times: int
) -> None:
    """The original is read at most once."""
    asked: list[str] = []
    monkeypatch.setattr(
        owner_datasets.dataset_records_and_originals,
        "files_match_checksums",
        lambda path, _: bool(asked.append(path)) or is_there,
    )
    monkeypatch.setattr(storage_area_shell_scripts, "storage_area_with_account_folder", lambda area: area)
    done = site.datasets.add_dataset("reads", site.tree(), len(NAMES)).dataset
    for name in logins.split():
        login = SshLogin(host=name, user="me")
        site.areas[name] = replace(site.areas[name], login=login)

    found = site.datasets._replicas._choose_copy_source_folder(done if logins else replace(done, replicas=()), {})

    places = {name: f"{area.account_folder_path}/reads" for name, area in site.areas.items()}
    most_free = done.areas_with_whole_replica[0]
    places |= {"original": done.path, "first": places[most_free]}
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
def test_a_replica_that_was_changed_outside_gridbridge_is_detected_and_repaired(
    site: Site, spoil: str, why: str
) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    hurt = min(whole(before))
    subprocess.run(["sh", "-c", spoil], cwd=site.replica(hurt, "reads"), check=True)

    seen = site.datasets.verify_dataset("reads")
    told = {one.storage: one.why for one in seen.dataset.replicas}

    assert (False, whole(before) - {hurt}) == (seen.is_done, whole(seen))
    assert why in told[hurt]

    mended = site.datasets.replicate_dataset("reads")

    assert (True, 2) == (mended.is_done, len(whole(mended)))


def test_a_kill_between_the_two_renames_of_a_new_replica_loses_no_copied_file(site: Site) -> None:
    """Between the two renames no replica has the final name."""
    (storage,) = whole(site.datasets.add_dataset("reads", site.tree(), 1))
    own = Path(site.areas[storage].account_folder_path)
    (own / "reads").rename(own / ".reads.part")
    (own / ".reads.old").mkdir()
    site.carrier.carried = []

    done = site.datasets.replicate_dataset("reads")

    assert ({storage}, []) == (whole(done), site.carrier.carried)
    assert ["reads"] == site.entries(storage)


def test_temporary_files_of_an_earlier_copy_are_not_part_of_the_replica(site: Site) -> None:
    part = Path(f"{site.areas['beta-disk'].account_folder_path}/.reads.part")
    part.mkdir(parents=True)
    (part / ".a.txt.Xy12Zz").write_text("half")
    (part / REPLICA_MARK).write_text("reads\n")

    done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert set(NAMES) == whole(done)
    assert whole(done) == whole(site.datasets.verify_dataset("reads"))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    with memory_mounted(path, "size=1m"):
        yield path


@AS_ROOT
@pytest.mark.root
def test_an_area_that_becomes_full_during_the_copy_gets_no_replica(site: Site, small: Path) -> None:
    """The area has enough free bytes when the area is measured."""
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
            raise CommandFailed(("rsync",), 11, stderr=str(error.strerror).encode()) from error

    site.carrier = fill  # type: ignore[assignment]
    done = site.datasets.add_dataset("big", f"{site.folder}/big", 3)

    assert (False, {"alpha-disk", "gamma-disk"}) == (done.is_done, whole(done))
    assert "No space left on device" in reasons(done)["beta-disk"]
    assert not site.replica("beta-disk", "big").exists()


@AS_ROOT
@pytest.mark.root
def test_a_read_only_area_gets_no_replica(site: Site, small: Path) -> None:
    site.areas["beta-disk"] = replace(site.areas["beta-disk"], path=str(small))
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)

    done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert "the area is read-only" == reasons(done)["beta-disk"]


@pytest.mark.parametrize(
    ("mode", "max_bytes", "reason"),
    [(0o755, 5, "9 B are more than the 3 B that one copy may take (disk_share)"), (0o777, 0, "not sticky")],
    ids=["limit of the account's bytes", "others can replace the account's folder"],
)
def test_an_area_without_room_or_protection_is_refused(site: Site, mode: int, max_bytes: int, reason: str) -> None:
    site.areas["beta-disk"] = replace(site.areas["beta-disk"], max_bytes=max_bytes)
    Path(site.areas["beta-disk"].path).chmod(mode)

    done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert reason in reasons(done)["beta-disk"]


MAKERS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("/etc"),
    "link to a folder around the original": lambda path: path.symlink_to(path.parents[1]),
    "file": Path.touch,
    "pipe": os.mkfifo,
}


def take(site: Site, kind: str = "folder", storage: str = "beta-disk") -> Path:
    """Make the account's folder in an area as another user; return the folder."""
    own = Path(site.areas[storage].account_folder_path)
    MAKERS[kind](own)
    os.chown(own, 65534, 65534, follow_symlinks=False)
    return own


def others_of(own: Path) -> list[Path]:
    """Return the folders that the account uses in the area under other names."""
    return sorted(path for path in own.parent.iterdir() if path.name.startswith(f"{own.name}."))


@AS_ROOT
@pytest.mark.parametrize("kind", MAKERS)
def test_a_folder_that_another_user_made_in_an_area_is_not_used(site: Site, kind: str) -> None:
    own = take(site, kind)

    done = site.datasets.add_dataset("reads", site.tree(), 3)
    (other,) = others_of(own)

    assert (3, {}) == (len(whole(done)), reasons(done))
    assert kind != "folder" or [] == os.listdir(own)
    assert (other / "reads/a.txt").read_text() == "one"
    assert [0o700, os.geteuid()] == [other.stat().st_mode & 0o777, other.stat().st_uid]


@AS_ROOT
def test_an_account_folder_with_a_random_suffix_is_used_like_any_other(site: Site) -> None:
    own = take(site)
    site.datasets.add_dataset("reads", site.tree(), 3)
    (other,) = others_of(own)
    (other / "reads/a.txt").write_text("spoilt")
    repaired = site.datasets.replicate_dataset("reads")
    text = (other / "reads/a.txt").read_text()
    shutil.rmtree(site.folder / "reads")
    own.rmdir()
    verified = site.datasets.verify_dataset("reads")
    again = site.datasets.add_dataset("more", site.tree(), 3)
    dropped = site.datasets.drop_dataset_or_replica("reads", "beta-disk")

    assert (3, "one", 3) == (len(whole(repaired)), text, len(whole(verified)))
    assert (3, False) == (len(whole(again)), own.exists())
    assert "beta-disk" not in whole(dropped)
    assert ["more"] == [path.name for path in other.iterdir() if not path.name.startswith(".")]


@AS_ROOT
def test_another_users_folders_with_names_like_the_accounts_folders_are_ignored(site: Site) -> None:
    own = take(site)
    like_ours = own.with_name(f"{own.name}.00000000-0000-0000-0000-000000000000")
    like_ours.mkdir()
    (like_ours / storage_area_shell_scripts.AREA_MARK).write_text("beta-disk\n")
    os.chown(like_ours, 65534, 65534)
    own.with_name(f"{own.name}.11111111-0000-0000-0000-000000000000").symlink_to(site.folder)
    done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert (3, {}) == (len(whole(done)), reasons(done))
    assert [storage_area_shell_scripts.AREA_MARK] == os.listdir(like_ours)
    assert 3 == len(others_of(own))


@AS_ROOT
def test_parallel_copies_use_one_account_folder_with_a_random_suffix(site: Site) -> None:
    own = take(site)
    area = site.areas["beta-disk"]
    dataset = site.datasets.add_dataset("reads", site.tree(), 1, is_later=True).dataset
    with ThreadPoolExecutor(8) as threads:
        several = [replace(dataset, name=f"reads{n}") for n in range(8)]
        begun = [threads.submit(prepare_new_replica_folder, area, one, is_known=False) for one in several]
        for one in begun:
            one.result()
    (other,) = others_of(own)

    assert storage_area_shell_scripts.storage_area_with_account_folder(area).account_folder_path == str(other)
    assert len([*other.glob(".reads*.part")]) == 8


@AS_ROOT
def test_an_original_inside_an_account_folder_with_a_random_suffix_is_refused(site: Site) -> None:
    own = take(site)
    site.datasets.add_dataset("reads", site.tree(), 3)
    (other,) = others_of(own)

    with pytest.raises(GridbridgeError, match="beta-disk keeps replicas in"):
        site.datasets.add_dataset("more", str(other / "reads"), 1)


def test_a_replica_can_be_dropped_unless_it_is_the_last_whole_replica(site: Site) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    one, last = sorted(whole(before))

    assert {last} == whole(site.datasets.drop_dataset_or_replica("reads", one))
    assert not site.replica(one, "reads").exists()
    with pytest.raises(GridbridgeError, match=f"{last}: this area has the last whole replica of reads"):
        site.datasets.drop_dataset_or_replica("reads", last)
    assert {last} == whole(site.datasets.verify_dataset("reads"))


def test_a_replica_that_may_be_the_last_whole_replica_is_kept_while_it_is_unreadable(site: Site) -> None:
    """A check without answer does not prove that the replica is gone; --lost forgets the replica."""
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    last, gone = sorted(whole(before))
    site.replica(gone, "reads").rename(site.folder / "moved")
    shutil.rmtree(site.folder / "reads")
    with pytest.MonkeyPatch.context() as during:
        during.setattr(
            storage_area_shell_scripts,
            "checksum_replica",
            Mock(side_effect=StorageAreaUnreachable("no answer in time")),
        )
        for name in (last, gone):
            with pytest.raises(GridbridgeError, match=f"{name}: this area has the last whole .*no answer"):
                site.datasets.drop_dataset_or_replica("reads", name)
        assert site.datasets.drop_dataset_or_replica("reads", gone, is_lost=True).is_done

    assert {last} == whole(site.datasets.verify_dataset("reads"))
    with pytest.raises(GridbridgeError, match=f"{last}: this area has the last whole replica of reads;"):
        site.datasets.drop_dataset_or_replica("reads", last, is_lost=True)
    (site.replica(last, "reads") / "a.txt").write_text("x")
    assert site.datasets.drop_dataset_or_replica("reads", last).is_done


def test_dropping_a_dataset_removes_the_replicas_and_keeps_the_original(site: Site) -> None:
    tree = site.tree()
    before = site.datasets.add_dataset("reads", tree, 2)

    assert site.datasets.drop_dataset_or_replica("reads").is_done
    assert [] == site.datasets.list_datasets()
    assert not any(site.replica(name, "reads").exists() for name in whole(before))
    assert "one" == Path(tree, "a.txt").read_text()


def test_a_replica_that_can_not_be_removed_stays_recorded_until_it_is_declared_lost(site: Site) -> None:
    site.datasets.add_dataset("reads", site.tree(), 3)
    del site.areas["gamma-disk"]

    done = site.datasets.drop_dataset_or_replica("reads")

    assert (False, ("gamma-disk",)) == (done.is_done, site.datasets.list_datasets()[0].areas_with_replica)
    assert "--lost forgets the replica" in reasons(done)["gamma-disk"]
    assert site.datasets.drop_dataset_or_replica("reads", is_lost=True).is_done
    assert [] == site.datasets.list_datasets()


def test_a_replica_in_an_area_without_configuration_is_replaced_and_can_be_declared_lost(site: Site) -> None:
    left = min(whole(site.datasets.add_dataset("reads", site.tree(), 2)))
    there = site.replica(left, "reads")
    site.areas = {name: one for name, one in site.areas.items() if name != left}

    seen = site.datasets.verify_dataset("reads")
    made = site.datasets.replicate_dataset("reads")
    kept = site.datasets.drop_dataset_or_replica("reads", left)
    lost = site.datasets.drop_dataset_or_replica("reads", left, is_lost=True)

    told = {one.storage: one.why for one in seen.dataset.replicas}
    assert (False, "gridbridge.toml no longer has this storage area") == (seen.is_done, told[left])
    assert (True, set(NAMES) - {left}) == (made.is_done, whole(made))
    assert (False, True) == (kept.is_done, left in kept.dataset.areas_with_replica)
    assert "--lost forgets the replica" in reasons(kept)[left]
    assert (True, set(NAMES) - {left}) == (lost.is_done, set(lost.dataset.areas_with_replica))
    assert there.exists()


def test_draining_an_area_moves_its_replica_to_another_area(site: Site) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    left = min(whole(before))

    (done,) = site.datasets.drain_area(left)

    assert (True, set(NAMES) - {left}) == (done.is_done, whole(done))
    assert not site.replica(left, "reads").exists()
    assert [] == list(site.datasets.drain_area(left))


def test_an_area_that_the_configuration_drains_gets_no_replica(site: Site) -> None:
    for name in ("alpha-disk", "beta-disk"):
        site.areas[name] = replace(site.areas[name], is_drained=True)

    done = site.datasets.add_dataset("reads", site.tree(), 2)
    asked = site.datasets.replicate_dataset("reads", "beta-disk")
    (left,) = site.datasets.drain_area("gamma-disk")

    assert isinstance(left, DatasetAndRefusedAreas)
    for one in (done, asked, left):
        assert (False, {"gamma-disk"}) == (one.is_done, whole(one))
        assert owner_replica_copies_and_checks.DRAINED == reasons(one)["beta-disk"]


def test_a_replica_without_other_area_stays_in_a_drained_area(site: Site) -> None:
    site.datasets.add_dataset("reads", site.tree(), 3)

    (done,) = site.datasets.drain_area("beta-disk")

    assert not done.is_done
    assert "2 of 3 replicas are whole in other areas: the replica stays" == reasons(done)["beta-disk"]
    assert site.replica("beta-disk", "reads").exists()
    assert set(NAMES) == set(site.datasets.list_datasets()[0].areas_with_replica)


def test_a_replica_that_can_not_be_removed_from_a_drained_area_stays_recorded(site: Site) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 1)
    (left,) = whole(before)
    gone = Path(site.areas[left].path)
    gone.rename(f"{gone}.away")

    (done,) = site.datasets.drain_area(left)

    assert (False, 1) == (done.is_done, len(whole(done)))
    assert left in site.datasets.list_datasets()[0].areas_with_replica
    Path(f"{gone}.away").rename(gone)
    assert [True] == [one.is_done for one in site.datasets.drain_area(left)]
    assert not site.replica(left, "reads").exists()


def test_a_replica_in_a_drained_area_stays_while_the_replica_in_another_area_is_damaged(site: Site) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    left, other = sorted(whole(before))
    (site.replica(other, "reads") / "a.txt").write_text("x")
    site.carrier.dies_after = 0

    (done,) = site.datasets.drain_area(left)

    assert not done.is_done
    assert "one" == (site.replica(left, "reads") / "a.txt").read_text()


def test_the_accounts_parallel_copies_into_an_area_are_limited(site: Site) -> None:
    records = site.datasets.records
    with (
        records.lock_dataset("x"),
        records.reserve_copy_slot_in_area("beta-disk", 2),
        records.reserve_copy_slot_in_area("beta-disk", 2),
    ):
        done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert "2 of your copies into this area run; copies_at_once allows no more" == reasons(done)["beta-disk"]
    assert site.datasets.replicate_dataset("reads").is_done


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "a b", "a\nb", "ä", "x" * 101])
def test_invalid_dataset_names_and_numbers_of_replicas_are_refused(site: Site, name: str) -> None:
    for act in (site.datasets.verify_dataset, site.datasets.replicate_dataset, site.datasets.drop_dataset_or_replica):
        with pytest.raises(GridbridgeError, match="invalid name of a dataset; expected at most 100 letters, digits"):
            act(name)
    with pytest.raises(GridbridgeError, match="invalid name of a dataset; expected at most 100 letters, digits"):
        site.datasets.add_dataset(name, site.tree(), 1)
    for wished in (0, -1, 101):
        with pytest.raises(GridbridgeError, match="expected 1 to 100"):
            site.datasets.add_dataset("reads", f"{site.folder}/reads", wished)
    assert not (site.folder / "records").exists()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("rm -r a.txt deep", "has no file"),
        ("ln -s nowhere l", "No such file or directory"),
        ("ln -s . l", "a symlink to a folder above"),
        ("mkfifo f", "neither a file nor a folder"),
        ("rm -r $PWD", "No such file or directory"),
        pytest.param("chown 65534 .", "owned by another account", marks=AS_ROOT),
    ],
)
def test_an_unsuitable_original_is_refused_and_not_recorded(site: Site, spoil: str, why: str) -> None:
    tree = site.tree()
    subprocess.run(["sh", "-c", spoil], cwd=tree, check=True)

    with pytest.raises(GridbridgeError, match=why):
        site.datasets.add_dataset("reads", tree, 1)
    assert [] == site.datasets.list_datasets()


def test_an_original_with_too_many_files_is_refused_before_the_first_copy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = site.tree()
    size = sum(64 + len("  ./") + len(name) + 1 for name in TREE)
    monkeypatch.setattr(recorded, "MOST_SUMS", size - 1)
    with pytest.raises(GridbridgeError, match="reads: the checksums of 3 files take"):
        site.datasets.add_dataset("reads", tree, 1)
    was = (site.datasets.list_datasets(), site.carrier.carried)
    monkeypatch.setattr(recorded, "MOST_SUMS", size)

    assert ([], []) == was
    assert site.datasets.add_dataset("reads", tree, 1).is_done
    assert site.datasets.verify_dataset("reads").is_done


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        *((f"printf %s {shlex.quote(text)} >records/reads.json", "invalid record of a dataset")
          for text in ("", "{}", "[]", '{"name": "other", "replicas": []}', "\1")),
        (": >records/reads.sums", "not the checksums of reads"),
        pytest.param("chown 65534 records/reads.json", "owned by uid 65534", marks=AS_ROOT),
    ],
)  # fmt: skip
def test_a_dataset_with_a_wrong_or_foreign_record_is_refused(site: Site, spoil: str, why: str) -> None:
    before = site.datasets.add_dataset("reads", site.tree(), 2)
    subprocess.run(["sh", "-c", spoil], cwd=site.folder, check=True)

    for act in (
        site.datasets.verify_dataset,
        site.datasets.drop_dataset_or_replica if "json" in spoil else site.datasets.replicate_dataset,
    ):
        with pytest.raises(GridbridgeError, match=why):
            act("reads")
    assert all(site.replica(name, "reads").exists() for name in whole(before))


def test_unknown_datasets_and_areas_are_refused_with_the_known_names(site: Site) -> None:
    with pytest.raises(GridbridgeError, match="nothing: no dataset of yours; your datasets: none"):
        site.datasets.verify_dataset("nothing")
    site.datasets.add_dataset("reads", site.tree(), 1)
    with pytest.raises(GridbridgeError, match="nothing: no dataset of yours; your datasets: reads"):
        site.datasets.drop_dataset_or_replica("nothing")
    with pytest.raises(GridbridgeError, match="x: no storage area; expected alpha-disk or beta-disk or"):
        site.datasets.replicate_dataset("reads", "x")
    with pytest.raises(GridbridgeError, match="x: no storage area"):
        list(site.datasets.drain_area("x"))
    with pytest.raises(GridbridgeError, match="you already have a dataset of this name"):
        site.datasets.add_dataset("reads", f"{site.folder}/reads", 1)


def test_one_faulty_record_does_not_affect_other_datasets(site: Site) -> None:
    site.datasets.add_dataset("reads", site.tree(), 1)
    Path(site.folder, "records/wrong.json").write_text("?")

    assert set(NAMES) == {name for to in NAMES for name in whole(site.datasets.replicate_dataset("reads", to))}
    assert site.datasets.drop_dataset_or_replica("reads").is_done


def test_read_only_folders_of_a_replica_can_be_repaired_and_removed(site: Site) -> None:
    (storage,) = whole(site.datasets.add_dataset("reads", site.tree(), 1))
    (site.replica(storage, "reads") / "deep").chmod(0o500)
    (site.replica(storage, "reads") / "a.txt").write_text("x")

    assert {storage} == whole(site.datasets.replicate_dataset("reads", storage))
    assert ["reads"] == site.entries(storage)
