"""Only a dataset's own files in a storage area are replaced or removed; other files stay."""

import copy
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.rebalance.datasets import REPLICA_MARK
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.rebalance.replicas import owner_replica_copies_and_checks, storage_area_shell_scripts
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas, LocalOrSshFolder
from gridbridge.rebalance.replicas.storage_area_shell_scripts import AREA_MARK
from gridbridge.shell.rsync import RsyncLimitAndProgress
from tests.rebalance.mover.areas import NAMES, Carrier, Killed, Site, reasons


def only(site: Site, *names: str) -> None:
    site.areas = {name: one for name, one in site.areas.items() if name in names}


@pytest.fixture(name="lone")
def _lone(site: Site) -> Site:
    only(site, "beta-disk")
    return site


@pytest.mark.parametrize("name", ["reads", ".reads.old", ".reads.part"])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_file_or_folder_of_the_owner_with_the_dataset_name_is_kept(site: Site, name: str, kind: str) -> None:
    theirs = Path(site.areas["beta-disk"].account_folder_path, name)
    theirs.parent.mkdir()
    if kind == "folder":
        theirs.mkdir()
    file = theirs / "mine" if kind == "folder" else theirs
    file.write_text("mine")

    done = site.datasets.add_dataset("reads", site.tree(), 3)

    assert {"alpha-disk", "gamma-disk"} == set(done.dataset.areas_with_whole_replica)
    assert "a file or folder here has the dataset's name, but is no replica" in reasons(done)["beta-disk"]
    assert [] == list(site.datasets.drain_area("beta-disk"))
    assert site.datasets.drop_dataset_or_replica("reads").is_done
    assert ([name], "mine") == (site.entries("beta-disk"), file.read_text())


def test_a_folder_that_appears_during_a_copy_is_not_replaced(lone: Site) -> None:
    mine = lone.replica("beta-disk", "reads")
    real = lone.carrier

    def come(source: LocalOrSshFolder, target: LocalOrSshFolder, names: list[str], pace: RsyncLimitAndProgress) -> None:
        real(source, target, names, pace)
        mine.mkdir()
        (mine / "mine").touch()

    lone.carrier = come  # type: ignore[assignment]
    done = lone.datasets.add_dataset("reads", lone.tree(), 1)
    lone.datasets.drop_dataset_or_replica("reads")

    assert "has the dataset's name, but is no replica" in reasons(done)["beta-disk"]
    assert ["reads"] == lone.entries("beta-disk")
    assert ["mine"] == os.listdir(mine)


def test_a_replica_whose_record_was_lost_is_replaced_by_a_new_copy(lone: Site) -> None:
    lone.datasets.add_dataset("reads", lone.tree(), 1)
    (lone.folder / "records/reads.json").unlink()
    (lone.replica("beta-disk", "reads") / "a.txt").write_text("spoilt")

    assert lone.datasets.add_dataset("reads", f"{lone.folder}/reads", 1).is_done
    assert "one" == (lone.replica("beta-disk", "reads") / "a.txt").read_text()
    assert ["reads"] == lone.entries("beta-disk")


def second(site: Site) -> Site:
    """Return the same areas with other records, and an original with different content."""
    other = copy.copy(site)
    other.folder = site.folder / "other"
    other.folder.mkdir()
    other.tree()
    (other.folder / "reads/a.txt").write_text("another")
    return other


@pytest.mark.parametrize("is_begun", [False, True], ids=["whole", "only begun"])
@pytest.mark.parametrize("name", ["reads", ".reads.part", ".reads.old"])
def test_a_replica_of_another_record_with_the_same_name_is_kept(lone: Site, name: str, is_begun: bool) -> None:
    """The other record is in another --records folder, in a second home, or on another host that uses the same area."""
    lone.datasets.add_dataset("reads", lone.tree(), 1)
    own = Path(lone.areas["beta-disk"].account_folder_path)
    (own / "reads").rename(own / name)
    if is_begun:
        subprocess.run(["rm", "-r", own / name / "deep", own / name / "a.txt"], check=True)
    was = os.listdir(own / name)
    other = second(lone)

    done = other.datasets.add_dataset("reads", f"{other.folder}/reads", 1)

    assert "a file or folder here has the dataset's name, but is no replica" in reasons(done)["beta-disk"]
    assert other.datasets.drop_dataset_or_replica("reads").is_done
    assert ([name], was) == (lone.entries("beta-disk"), os.listdir(own / name))
    assert lone.datasets.replicate_dataset("reads").is_done


def test_a_replica_listed_in_two_records_belongs_to_the_record_with_its_checksums(lone: Site) -> None:
    """Otherwise both records would repair or remove the replica again and again."""
    tree = lone.tree()
    (replica,) = lone.datasets.add_dataset("reads", tree, 1).dataset.replicas
    other = second(lone)
    records = other.datasets.records
    other.datasets.add_dataset("reads", f"{other.folder}/reads", 1, is_later=True)
    records.save_dataset(records.load_dataset("reads").with_replica(replica))

    done = other.datasets.replicate_dataset("reads")

    assert (False, ()) == (done.is_done, done.dataset.areas_with_whole_replica)
    assert "has the dataset's name, but is no replica" in reasons(done)["beta-disk"]
    assert other.datasets.drop_dataset_or_replica("reads").is_done
    assert ("beta-disk",) == lone.datasets.verify_dataset("reads").dataset.areas_with_whole_replica


def test_a_replica_with_a_mark_without_checksum_belongs_to_the_dataset_of_its_name(lone: Site) -> None:
    done = lone.datasets.add_dataset("reads", lone.tree(), 1)
    mark = lone.replica("beta-disk", "reads") / REPLICA_MARK
    was = mark.read_text()
    mark.write_text("reads\n")
    (lone.folder / "records/reads.json").unlink()

    assert lone.datasets.add_dataset("reads", f"{lone.folder}/reads", 1).is_done
    assert f"reads {done.dataset.sha256}\n" == was == mark.read_text()
    mark.write_text("reads\n")
    assert lone.datasets.drop_dataset_or_replica("reads").is_done
    assert [] == lone.entries("beta-disk")


def test_a_copied_folder_with_another_datasets_mark_is_no_replica(lone: Site) -> None:
    lone.datasets.add_dataset("reads", lone.tree(), 1)
    own = lone.areas["beta-disk"].account_folder_path
    subprocess.run(["cp", "-a", f"{own}/reads", f"{own}/runs"], check=True)

    done = lone.datasets.add_dataset("runs", f"{lone.folder}/reads", 1)

    assert "has the dataset's name, but is no replica" in reasons(done)["beta-disk"]


@pytest.mark.parametrize("what", ["drop_dataset_or_replica", "replicate_dataset"])
def test_a_finished_copy_that_was_killed_before_it_was_recorded_is_used_or_removed(
    lone: Site, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    real = storage_area_shell_scripts.install_finished_replica

    def die(*words: object, **more: object) -> None:
        real(*words, **more)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(storage_area_shell_scripts, "install_finished_replica", die)
    with pytest.raises(Killed):
        lone.datasets.add_dataset("reads", lone.tree(), 1)
    monkeypatch.undo()
    was = lone.entries("beta-disk")
    done = getattr(lone.datasets, what)("reads")

    assert (["reads"], True) == (was, done.is_done)
    assert ([] if what == "drop_dataset_or_replica" else ["reads"]) == lone.entries("beta-disk")


@pytest.mark.parametrize("left", [f"mkdir $2; : >$2/{REPLICA_MARK}", "mkdir $2", "mkdir $1; :"])
def test_a_kill_between_folder_and_mark_does_not_prevent_the_next_copy(lone: Site, left: str) -> None:
    """A replica folder and an area folder each get a mark right after their creation."""
    area = lone.areas["beta-disk"]
    subprocess.run(["sh", "-c", f"mkdir -p {area.account_folder_path}"], check=True)
    Path(area.account_folder_path, AREA_MARK).touch()
    for folder in (f"{area.account_folder_path}/.reads.part", f"{area.account_folder_path}/.reads.old"):
        words = ("sh", "-c", left, "sh", f"{folder}", f"{folder}")
        subprocess.run(words, check=True)

    assert lone.datasets.add_dataset("reads", lone.tree(), 1).is_done
    assert ["reads"] == lone.entries("beta-disk")


def test_a_killed_removal_is_completed_by_the_next_removal(lone: Site) -> None:
    lone.carrier.dies_after = 1
    lone.datasets.add_dataset("reads", lone.tree(), 1)
    part = f"{lone.areas['beta-disk'].account_folder_path}/.reads.part"
    lines = f"{storage_area_shell_scripts.REMOVE}rm() {{ exit 9; }}\nemptied {part}"
    subprocess.run(["sh", "-c", lines], check=False)
    was = os.listdir(part)

    assert lone.datasets.drop_dataset_or_replica("reads").is_done
    assert ([REPLICA_MARK], []) == (was, lone.entries("beta-disk"))


@pytest.mark.parametrize(
    "where",
    [
        lambda own, _: f"{own}/reads",
        lambda own, _: f"{own}/deep/down",
        lambda own, _: own,
        lambda own, _: os.path.dirname(own),
        lambda _, link: f"{link}/reads",
    ],
    ids=["a replica's place", "within", "the folder", "around it", "by a link"],
)
def test_an_original_inside_or_around_a_folder_of_replicas_is_refused(
    site: Site, where: Callable[[str, str], str]
) -> None:
    own, link = site.areas["beta-disk"].account_folder_path, f"{site.folder}/link"
    for name in ("reads", "deep/down"):
        os.makedirs(f"{own}/{name}")
        Path(own, name, "a.txt").write_text("one")
    os.symlink(own, link)

    with pytest.raises(GridbridgeError, match="beta-disk keeps replicas in"):
        site.datasets.add_dataset("reads", where(own, link), 1)
    assert [] == site.datasets.list_datasets()
    assert "one" == Path(own, "reads/a.txt").read_text()


def test_a_replica_is_refused_as_an_original(site: Site) -> None:
    """A bind mount may hide that the replica is in a storage area."""
    (storage,) = site.datasets.add_dataset("reads", site.tree(), 1).dataset.areas_with_whole_replica
    moved = f"{site.folder}/elsewhere"
    os.rename(site.replica(storage, "reads"), moved)

    with pytest.raises(GridbridgeError, match="this file marks the folder as a replica of a dataset"):
        site.datasets.add_dataset("again", moved, 1)


@pytest.mark.parametrize("is_link", [False, True])
def test_two_areas_with_the_same_folder_hold_one_replica_together(site: Site, is_link: bool) -> None:
    only(site, "alpha-disk", "beta-disk")
    place = site.areas["alpha-disk"].path
    if is_link:
        Path(site.areas["beta-disk"].path).rmdir()
        os.symlink(place, site.areas["beta-disk"].path)
    else:
        site.areas["beta-disk"] = replace(site.areas["beta-disk"], path=place)

    done = site.datasets.add_dataset("reads", site.tree(), 2)

    (first,) = done.dataset.areas_with_whole_replica
    (other,) = {"alpha-disk", "beta-disk"} - {first}
    assert not done.is_done
    assert "the folder belongs to another storage area" in reasons(done)[other]
    told = replace(done.dataset.replicas[0], storage=other)
    site.datasets.records.save_dataset(done.dataset.with_replica(told))
    dropped = site.datasets.drop_dataset_or_replica("reads", other)
    assert (False, {first}) == (dropped.is_done, set(dropped.dataset.areas_with_whole_replica))
    assert {first} == set(
        site.datasets.drop_dataset_or_replica("reads", other, is_lost=True).dataset.areas_with_whole_replica
    )
    assert {first} == set(site.datasets.verify_dataset("reads").dataset.areas_with_whole_replica)


def test_a_renamed_area_is_usable_after_the_command_in_the_refusal(lone: Site) -> None:
    lone.datasets.add_dataset("reads", lone.tree(), 1)
    lone.areas = {"new": replace(lone.areas["beta-disk"], name="new")}

    refused = lone.datasets.replicate_dataset("reads")
    line = reasons(refused)["new"].rpartition(" run: ")[2]
    subprocess.run(["sh", "-c", line], check=True)
    done = lone.datasets.replicate_dataset("reads")

    assert {"new"} == set(done.dataset.areas_with_whole_replica)
    assert ["reads"] == lone.entries("new")


def failing(site: Site, *names: str) -> None:
    real = site.carrier
    paths = tuple(site.areas[name].path for name in names)

    def die(source: LocalOrSshFolder, target: LocalOrSshFolder, files: list[str], pace: RsyncLimitAndProgress) -> None:
        real.dies_after = 1 if target.folder.startswith(paths) else -1
        real(source, target, files, pace)

    site.carrier = die  # type: ignore[assignment]


def half_copied(lone: Site) -> DatasetAndRefusedAreas:
    failing(lone, "beta-disk")
    return lone.datasets.add_dataset("reads", lone.tree(), 1)


def offer(monkeypatch: pytest.MonkeyPatch, free_bytes: Callable[[str], int]) -> None:
    def measured(area: storage_area_shell_scripts.StorageAreaForAccount) -> MeasuredStorageArea:
        return MeasuredStorageArea(storage=area.name, clusters=area.clusters, free_bytes=free_bytes(area.name))

    monkeypatch.setattr(
        owner_replica_copies_and_checks.storage_area_shell_scripts, "measure_area_for_account", measured
    )


def test_a_failed_copy_is_removed_when_enough_replicas_are_in_other_areas(site: Site) -> None:
    failing(site, *NAMES[:2])

    done = site.datasets.add_dataset("reads", site.tree(), 1)

    assert {NAMES[2]} == set(done.dataset.areas_with_whole_replica)
    assert () == done.dataset.begun
    assert [] == [
        each for name in NAMES[:2] if Path(site.areas[name].account_folder_path).exists() for each in site.entries(name)
    ]


def test_an_unfinished_copy_is_continued_if_its_missing_bytes_fit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(site, "beta-disk")
    site.datasets.add_dataset("reads", site.tree(), 1, is_later=True)
    site.datasets.replicate_dataset("reads", "beta-disk")
    offer(
        monkeypatch, lambda name: 8 if name == "beta-disk" else 10**9
    )  # 3 of the dataset's 9 bytes are copied already
    site.carrier = Carrier()
    done = site.datasets.replicate_dataset("reads")

    assert {"beta-disk"} == set(done.dataset.areas_with_whole_replica)
    assert 2 == len(site.carrier.carried)


def test_an_unfinished_copy_whose_missing_bytes_do_not_fit_is_removed(
    lone: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_copied(lone)
    offer(monkeypatch, lambda _: 0)
    done = lone.datasets.replicate_dataset("reads", "beta-disk")

    assert (False, ()) == (done.is_done, done.dataset.begun)
    assert [] == lone.entries("beta-disk")


@pytest.mark.parametrize("what", [("reads", "beta-disk"), ("reads",)], ids=["the copy", "the dataset"])
def test_an_unfinished_copy_stays_for_the_next_command_until_the_copy_or_the_dataset_is_dropped(
    lone: Site, what: tuple[str, ...]
) -> None:
    done = half_copied(lone)

    assert ("beta-disk",) == done.dataset.begun == lone.datasets.list_datasets()[0].begun
    assert [".reads.part"] == lone.entries("beta-disk")
    assert lone.datasets.drop_dataset_or_replica(*what).is_done
    assert [] == lone.entries("beta-disk")
    assert [()] * (len(what) - 1) == [dataset.begun for dataset in lone.datasets.list_datasets()]


def test_an_unfinished_repair_is_removed_from_an_area_without_free_bytes(
    lone: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = lone.tree()
    lone.datasets.add_dataset("reads", tree, 1)
    (lone.replica("beta-disk", "reads") / "a.txt").write_text("x")
    room = iter([10**9, 0])
    failing(lone, "beta-disk")
    offer(monkeypatch, lambda _: next(room))
    done = lone.datasets.replicate_dataset("reads")

    assert (False, ()) == (done.is_done, done.dataset.begun)
    assert ["reads"] == lone.entries("beta-disk")
    assert "x" == (lone.replica("beta-disk", "reads") / "a.txt").read_text()


def test_draining_an_area_removes_an_unfinished_copy(site: Site) -> None:
    only(site, "alpha-disk", "beta-disk")
    failing(site, "beta-disk")
    site.datasets.add_dataset("reads", site.tree(), 1)
    site.datasets.replicate_dataset("reads", "beta-disk")
    was = site.entries("beta-disk")

    (done,) = site.datasets.drain_area("beta-disk")

    assert isinstance(done, DatasetAndRefusedAreas)
    assert ([".reads.part"], [], True) == (was, site.entries("beta-disk"), done.is_done)


def test_an_unfinished_copy_that_can_not_be_removed_stays_recorded(lone: Site) -> None:
    half_copied(lone)
    place = Path(lone.areas["beta-disk"].path)
    place.rename(f"{place}.away")

    done = lone.datasets.drop_dataset_or_replica("reads")

    assert (False, ("beta-disk",)) == (done.is_done, lone.datasets.list_datasets()[0].begun)
    Path(f"{place}.away").rename(place)
    assert lone.datasets.drop_dataset_or_replica("reads").is_done
    assert [] == lone.entries("beta-disk")


def test_dropping_a_dataset_removes_its_local_relay_folder(site: Site) -> None:
    site.datasets.add_dataset("reads", site.tree(), 1)
    relay = Path(site.datasets.records.relay_folder("reads"))
    relay.mkdir()
    (relay / "a.txt").write_text("one")
    subprocess.run(["mkdir", "-p", f"{relay}/{'d/' * 1100}"], check=True)

    try:
        site.datasets.drop_dataset_or_replica("reads")

        assert not relay.exists()
    finally:
        subprocess.run(["rm", "-rf", relay], check=True)  # pytest can't remove such deep folders


def test_a_copy_that_finds_every_area_full_reports_the_full_areas(site: Site) -> None:
    def full(*words: object) -> None:
        del words
        raise CommandFailed(("rsync",), 11, stderr=b"No space left on device")

    site.carrier = full  # type: ignore[assignment]
    done = site.datasets.add_dataset("reads", site.tree(), 1)

    assert {"No space left on device"} == set(reasons(done).values())
    assert set(NAMES) == set(done.dataset.begun)


def test_a_locked_or_faulty_dataset_does_not_stop_the_drain_of_other_datasets(site: Site) -> None:
    only(site, "alpha-disk", "beta-disk")
    tree = site.tree()
    for name in ("busy", "reads"):
        site.datasets.add_dataset(name, tree, 1)
        site.datasets.replicate_dataset(name, "beta-disk")
    (site.folder / "records/a-wrong.json").write_text("?")

    with site.datasets.records.lock_dataset("busy"):
        told = list(site.datasets.drain_area("beta-disk"))

    refused = {one.what: one.reason for one in told if not isinstance(one, DatasetAndRefusedAreas)}
    (done,) = (one for one in told if isinstance(one, DatasetAndRefusedAreas))
    assert ("reads", True) == (done.dataset.name, done.is_done)
    assert ["a-wrong", "busy"] == sorted(refused)
    assert "wait for it" in refused["busy"]
    assert ["busy"] == site.entries("beta-disk")


def test_the_callback_about_a_recorded_dataset_is_called_before_the_first_copy(site: Site) -> None:
    told: list[list[str]] = []

    def noted() -> None:
        told.append([one.name for one in site.datasets.list_datasets()])
        assert [] == site.carrier.carried

    site.datasets.add_dataset("reads", site.tree(), 1, notify=noted)
    site.carrier.carried = []
    site.datasets.replicate_dataset("reads", "beta-disk", notify=noted)

    assert [["reads"], ["reads"]] == told
