"""Replicas in object stores that a program of the site reaches: whole, continued after a kill, and verified."""

import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.errors import StorageAreaUnreachable
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas
from tests.contract.waiting import until
from tests.rebalance.mover.areas import Site, reasons
from tests.rebalance.mover.desk import Desk

ROOT = Path(__file__).parents[3]
PROGRAM = """#!/bin/sh
top={top}/objects
echo "$*" >>{top}/calls
[ ! -e {top}/broken ] || {{ echo 'the store is down' >&2; exit 75; }}
case $1 in
put) mkdir -p "$top/${{2%/*}}" && cp "$3" "$top/$2" ;;
get) [ -e "$top/$2" ] || exit 66; cp "$top/$2" "$3" ;;
stat) [ -e "$top/$2" ] || exit 66; {stat} ;;
remove) rm -f "$top/$2" ;;
esac
"""
SIZE = 'stat -c %s "$top/$2"'
SIZE_AND_CHECKSUM = 'echo $(stat -c %s "$top/$2") $(sha256sum <"$top/$2" | cut -c 1-64)'


class StoreSite(Site):
    """Two storage areas, and a store whose objects lie in a local folder."""

    def __init__(self, folder: Path, stat_command: str = SIZE) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, ("alpha-disk", "beta-disk"))
        self.program = folder / "store"
        self.write_program(PROGRAM.format(top=folder, stat=stat_command))
        self.store = ObjectStoreForAccount(
            name="archive", program=str(self.program), prefix="pre", account="me", timeout_s=20
        )
        self.areas |= {"archive": self.store}

    def write_program(self, text: str) -> None:
        self.program.write_text(text)
        self.program.chmod(0o755)

    def calls(self, verb: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [" ".join(line.split()[:2]) for line in lines if line.startswith(f"{verb} ")]

    def objects(self) -> list[Path]:
        return sorted(path for path in (self.folder / "objects").rglob("*") if path.is_file())


@pytest.fixture(params=[SIZE, SIZE_AND_CHECKSUM], ids=["size", "size and checksum"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> StoreSite:
    return StoreSite(tmp_path, request.param)


def whole(outcome: DatasetAndRefusedAreas) -> set[str]:
    return set(outcome.dataset.areas_with_whole_replica)


def stored(site: Site) -> DatasetAndRefusedAreas:
    """Add a dataset whose only replica is in the store, and lose the original."""
    for name in ("alpha-disk", "beta-disk"):
        site.areas[name] = replace(site.areas[name], is_drained=True)
    done = site.datasets.add_dataset("reads", site.tree(), 1)
    shutil.rmtree(f"{site.folder}/reads")
    for name in ("alpha-disk", "beta-disk"):
        site.areas[name] = replace(site.areas[name], is_drained=False)
    return done


def test_a_replica_is_put_into_the_store_and_comes_back_with_each_file(site: StoreSite) -> None:
    assert {"archive"} == whole(stored(site))

    back = site.datasets.replicate_dataset("reads", "beta-disk")

    assert {"archive", "beta-disk"} == whole(back)
    top = site.replica("beta-disk", "reads")
    assert ("one", "two", "one") == tuple((top / name).read_text() for name in ("a.txt", "deep/b\nc", "deep/link"))
    assert ["beta-disk", "objects", "records", "store"] == sorted({*os.listdir(site.folder)} - {"alpha-disk", "calls"})
    assert not [name for name in os.listdir(site.folder / "records") if name.endswith((".objects", ".relay"))]


def test_each_content_is_one_object_named_by_its_checksum_and_the_list_comes_last(site: StoreSite) -> None:
    dataset = stored(site).dataset

    puts = site.calls("put")
    assert f"put pre/me/reads/{dataset.sha256}" == puts[-1]
    assert (3, 3) == (len(puts), len(site.objects()))
    assert all(path.relative_to(site.folder / "objects").parts[:3] == ("pre", "me", "reads") for path in site.objects())


ODD = bytes(number for number in range(1, 256) if number != ord("/"))


@pytest.mark.parametrize("name", [ODD[:120], ODD[120:], b"-n", b"\xff" * 255, b"$(reboot) 'x\""], ids=str)
def test_any_file_name_survives_the_store(tmp_path: Path, name: bytes) -> None:
    site = StoreSite(tmp_path)
    path = os.fsencode(site.tree()) + b"/" + name
    Path(os.fsdecode(path)).write_bytes(b"odd")
    for area in ("alpha-disk", "beta-disk"):
        site.areas[area] = replace(site.areas[area], is_drained=True)
    site.datasets.add_dataset("reads", f"{tmp_path}/reads", 1)
    site.areas["beta-disk"] = replace(site.areas["beta-disk"], is_drained=False)
    shutil.rmtree(f"{tmp_path}/reads")

    assert site.datasets.replicate_dataset("reads", "beta-disk").is_done
    assert b"odd" == Path(site.replica("beta-disk", "reads"), os.fsdecode(name)).read_bytes()
    words = (tmp_path / "calls").read_text().replace(str(tmp_path), "").split()
    assert not [word for word in words if not re.fullmatch("[A-Za-z0-9_./-]+", word)]


def test_a_store_is_the_last_choice_for_a_replica(site: StoreSite) -> None:
    """Tasks can't read the files of a store."""
    assert {"alpha-disk", "beta-disk"} == whole(site.datasets.add_dataset("reads", site.tree(), 2))
    assert {"alpha-disk", "beta-disk", "archive"} == whole(site.datasets.replicate_dataset("reads", "archive"))


def test_a_copy_that_was_killed_before_the_list_is_no_replica_and_continues(site: StoreSite) -> None:
    text = site.program.read_text()
    kill = f'[ "$1" != put ] || [ "$(grep -c ^put {site.folder}/calls)" -lt 3 ] || {{ kill -9 $$; }}\n'
    site.write_program(text.replace("case $1 in\nput)", f"{kill}case $1 in\nput)", 1))
    killed = stored(site)

    assert (False, set(), ("archive",)) == (killed.is_done, whole(killed), killed.dataset.begun)
    assert 2 == len(site.objects())

    site.write_program(text)
    (site.folder / "reads/deep").mkdir(parents=True)
    for name, content in {"a.txt": "one", "deep/b\nc": "two", "deep/link": "one"}.items():
        (site.folder / "reads" / name).write_text(content)
    (site.folder / "calls").unlink()

    assert {"archive"} == whole(site.datasets.replicate_dataset("reads", "archive"))
    assert [f"put pre/me/reads/{killed.dataset.sha256}"] == site.calls("put")


@pytest.mark.parametrize(
    ("hurt", "why"),
    [
        (lambda path, _: path.write_bytes(b"xxx"), "has another checksum"),
        (lambda path, _: path.unlink(), "is missing"),
        (lambda _, listed: listed.unlink(), "the replica's list of files is missing"),
        (lambda _, listed: listed.write_bytes(b"?"), "the replica's list of files is damaged"),
    ],
    ids=["damaged", "missing", "no list", "damaged list"],
)
def test_a_damaged_replica_in_a_store_is_reported_and_repaired(
    site: StoreSite, hurt: Callable[[Path, Path], object], why: str
) -> None:
    site.datasets.add_dataset("reads", site.tree(), 2)
    dataset = site.datasets.replicate_dataset("reads", "archive").dataset
    files = {path.name: path for path in site.objects()}
    listed = files.pop(dataset.sha256)
    hurt(next(iter(files.values())), listed)

    checked = site.datasets.verify_dataset("reads").dataset
    (replica,) = (replica for replica in checked.replicas if replica.storage == "archive")

    assert (False, False) == (replica.is_whole, replica.is_away)
    assert why in replica.why
    assert "archive" in whole(site.datasets.replicate_dataset("reads", "archive"))


def test_a_store_that_does_not_answer_keeps_its_replicas(site: StoreSite) -> None:
    stored(site)
    (site.folder / "broken").touch()

    (replica,) = site.datasets.verify_dataset("reads").dataset.replicas

    assert (True, True, f"{site.program} stat: the store is down") == (replica.is_whole, replica.is_away, replica.why)


def test_the_replica_in_a_store_is_removed_with_all_its_objects(site: StoreSite) -> None:
    stored(site)

    assert site.datasets.drop_dataset_or_replica("reads").is_done
    assert [] == site.objects()


def test_an_object_that_can_not_be_removed_keeps_the_record(site: StoreSite) -> None:
    stored(site)
    (site.folder / "broken").touch()

    kept = site.datasets.drop_dataset_or_replica("reads")

    assert {"archive": f"{site.program} remove: the store is down; --lost forgets the replica"} == reasons(kept)
    assert ["reads"] == site.datasets.records.dataset_names()


def test_max_bytes_limits_the_replicas_of_an_account_in_a_store(site: StoreSite) -> None:
    site.areas["archive"] = replace(site.store, max_bytes=10)

    refused = reasons(site.datasets.add_dataset("reads", site.tree(), 3))
    small = site.folder / "small"
    small.write_text("1234567890")

    again = reasons(site.datasets.add_dataset("small", str(small), 3))

    assert {} == refused
    assert "10 B are more than the 1 B left of max_bytes" == again["archive"]


def test_a_round_moves_the_replica_of_a_drained_store_to_an_area(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    site = StoreSite(tmp_path / "site")
    desk.site = site
    site.rules = desk.rules
    stored(site)
    desk.drained = {"archive"}

    desk.round()

    ((storage,),) = (dataset.areas_with_whole_replica for dataset in desk.served.list_datasets())
    assert storage in {"alpha-disk", "beta-disk"}
    assert [] == site.objects()


@pytest.mark.killing
@pytest.mark.parametrize("calls", [2, 4, 6, 8, 9, 11])
def test_a_copy_into_a_store_that_is_killed_is_continued_and_never_called_whole(tmp_path: Path, calls: int) -> None:
    """The whole command is killed when its store's program is called for the given time."""
    site = StoreSite(tmp_path)
    text = site.program.read_text()
    kill = f'[ "$(wc -l <{tmp_path}/calls)" -lt {calls} ] || kill -9 $(cat {tmp_path}/pid) $$\n'
    site.write_program(text.replace("case $1 in\nput)", f"{kill}case $1 in\nput)", 1))
    site.datasets.add_dataset("reads", site.tree(), 2)
    child = os.fork()
    if not child:
        (tmp_path / "pid").write_text(str(os.getpid()))
        site.datasets.replicate_dataset("reads", "archive")
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    before = site.datasets.records.load_dataset("reads").areas_with_whole_replica
    site.write_program(text)

    assert killed
    assert "archive" not in before
    assert "archive" in whole(site.datasets.replicate_dataset("reads", "archive"))
    assert site.datasets.verify_dataset("reads").is_done
    assert not [name for name in os.listdir(tmp_path / "records") if name.endswith((".objects", ".relay"))]


WRONG_PROGRAMS = {
    "no answer in time": ("sleep 60", "no answer in time"),
    "too much output": ("yes", "larger than 64 KiB"),
    "no size": ("echo many", "stat: printed 'many\\n'; expected SIZE or SIZE SHA256"),
    "no reason": ("exit 3", "exit status 3"),
}


@pytest.mark.parametrize(("script", "why"), WRONG_PROGRAMS.values(), ids=WRONG_PROGRAMS)
def test_a_faulty_answer_of_the_program_is_no_missing_object(tmp_path: Path, script: str, why: str) -> None:
    site = StoreSite(tmp_path)
    site.write_program(f"#!/bin/sh\n{script}\n")

    with pytest.raises(StorageAreaUnreachable) as raised:
        replace(site.store, timeout_s=0.5).stat("reads", "0" * 64)

    assert why in str(raised.value)


def test_a_program_that_others_can_write_or_that_is_missing_does_not_run(tmp_path: Path) -> None:
    site = StoreSite(tmp_path)
    site.program.chmod(0o757)
    with pytest.raises(StorageAreaUnreachable, match="others could have written"):
        site.store.stat("reads", "0" * 64)

    site.program.unlink()
    with pytest.raises(StorageAreaUnreachable, match="No such file or directory"):
        site.store.stat("reads", "0" * 64)

    assert not (tmp_path / "calls").exists()


@pytest.fixture(scope="module")
def rclone() -> str:
    """Return the program for rclone; Debian's package is installed if this machine lacks it."""
    if (
        not shutil.which("rclone")
        and subprocess.run([ROOT / "tools/debian-packages", "rclone"], check=False).returncode
    ):
        pytest.skip("Debian's package rclone is missing, and only root installs it")
    return str(ROOT / "conf/stores/rclone")


def _is_listening(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address):
        return True
    return False


@contextmanager
def webdav_server(folder: Path) -> Iterator[str]:
    """Serve a folder by WebDAV on this machine, and yield the server's URL."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    argv = ("rclone", "-q", "serve", "webdav", "--addr", f"127.0.0.1:{address[1]}", str(folder))
    with subprocess.Popen(argv) as server:
        try:
            until(lambda: _is_listening(address), "rclone serves WebDAV", 20)
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            server.kill()


@pytest.fixture(params=["local", "s3", "webdav"])
def remote(request: pytest.FixtureRequest, tmp_path: Path, rclone: str) -> Iterator[str]:
    """Yield a remote of rclone: a local folder, an S3 bucket or a WebDAV folder of a server on this machine."""
    del rclone  # the program must be installed
    if request.param == "local":
        yield f":local:{tmp_path}/objects"
        return
    if request.param == "webdav":
        with webdav_server(tmp_path / "objects") as url:
            yield f":webdav,url='{url}',vendor=other:"
        return
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    yield f":s3,provider=Other,endpoint='{endpoint}',access_key_id=x,secret_access_key=y:bucket/{tmp_path.name}"
    server.stop()


def test_rclone_keeps_replicas_in_a_folder_in_s3_and_by_webdav(tmp_path: Path, rclone: str, remote: str) -> None:
    site = StoreSite(tmp_path)
    site.areas["archive"] = store = replace(site.store, program=rclone, prefix=remote)
    dataset = stored(site).dataset

    assert {"archive"} == whole(site.datasets.verify_dataset("reads"))
    assert {"archive", "beta-disk"} == whole(site.datasets.replicate_dataset("reads", "beta-disk"))
    assert "two" == (site.replica("beta-disk", "reads") / "deep/b\nc").read_text()
    assert store.stat("reads", dataset.sha256)
    assert site.datasets.drop_dataset_or_replica("reads").is_done
    assert store.stat("reads", dataset.sha256) is None
    store.remove("reads", dataset.sha256)


def test_the_program_for_rclone_is_executable_and_reports_an_unreachable_remote(tmp_path: Path, rclone: str) -> None:
    site = StoreSite(tmp_path)

    assert os.stat(rclone).st_mode & stat.S_IXUSR
    with pytest.raises(StorageAreaUnreachable, match="didn't find section"):
        replace(site.store, program=rclone, prefix="nowhere:").stat("reads", "0" * 64)
