"""Tests of the claim by which a remote job claims its task; the wrapper really runs here."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.batch import remote_job_claim_script
from gridbridge.errors import StateError
from gridbridge.model.transfer.claim_and_guard import (
    CLAIMS_FOLDER,
    claim_file_name,
    claim_key_file_name_and_contents,
    is_valid_claim_name,
)
from gridbridge.transfer.poller import remote_job_claims
from tests.batch.test_wrapper_script import Site, make_site

RUNS = b"echo ran\n"
ME = os.getuid()
BOB = 10002
ROUNDS, STEP_S = 40, 0.003  # rounds of the race, and delay between rounds: a wrapper claims its task after 10 to 50 ms


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = make_site(tmp_path)
    (site.spool / CLAIMS_FOLDER).mkdir()
    return site


def run(site: Site, token: str = "t0") -> tuple[int, str]:
    remote_job_claim_script.write_remote_job_claim_key(f"file.{token}", str(site.spool), ME)
    return run_without_key(site, token)


def run_without_key(site: Site, token: str = "t0") -> tuple[int, str]:
    lines = remote_job_claim_script.remote_job_claim_shell_lines(f"file.{token}", "file", str(site.spool), ME).replace(
        ":-60", ":-0"
    )
    status = site.run(script=RUNS, claim=lines)
    return status, site.out.read_text() if site.out.exists() else ""


def take_home(site: Site, token: str = "t0", late_s: float = 0.0) -> bool:
    """Claim a task for home; say whether home has the claim."""
    time.sleep(late_s)  # the delay sets the pace of the race, and waits for no condition
    return remote_job_claims.claim_task_for_home(f"{ME}.{token}", ME, str(site.spool))


def remove_old_claims(site: Site, *transfers: str, ages: int = 2) -> None:
    later_s = time.time() + ages * remote_job_claims.MAX_AGE_S
    remote_job_claims.remove_claim_files_without_transfer({*transfers}, later_s, str(site.spool))


def test_a_job_whose_task_home_has_claimed_does_not_run(site: Site) -> None:
    take_home(site)

    assert run(site) == (199, "")
    assert {"outcome=requeue", "claim=home", "reason=fenced: home has its claim"} <= told(site)


def test_a_job_claims_its_task_and_keeps_claim_and_key_when_restarted(site: Site) -> None:
    """A starter that was killed before the submission writes the key again."""
    assert [run(site), run(site)] == [(0, "ran\n"), (0, "ran\nran\n")]
    assert (site.spool / CLAIMS_FOLDER / f"{ME}.t0").read_text() == "77 beta-n1\n"


def test_a_job_that_cannot_write_its_claim_enters_error_state(site: Site) -> None:
    (site.spool / CLAIMS_FOLDER).rmdir()

    assert run_without_key(site) == (200, "")
    assert f"reason=can not claim the job in {site.spool}/claims on" in "\n".join(told(site))


def told(site: Site) -> set[str]:
    (message,) = site.spool.glob("w.*")
    return {*message.read_text().splitlines()}


def test_the_script_does_not_reveal_the_claims_token(site: Site) -> None:
    """Any user can read a job's script, and could create the claim first."""
    of = remote_job_claim_script.new_remote_job_claim("file")
    lines = remote_job_claim_script.remote_job_claim_shell_lines(of, "file", str(site.spool), ME)
    remote_job_claim_script.write_remote_job_claim_key(of, str(site.spool), ME)
    (key,) = (site.spool / CLAIMS_FOLDER).iterdir()

    assert str(key) in lines
    assert claim_key_file_name_and_contents(of, ME)[1] not in lines
    assert len(claim_key_file_name_and_contents(of, ME)[1]) * 4 == 128  # number of random bits
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_job_without_claim_key_does_not_run(site: Site) -> None:
    assert run_without_key(site) == (199, "")
    why = f"reason=fenced: can not claim the job in {site.spool}/{CLAIMS_FOLDER}"
    assert {"outcome=requeue", "claim=fenced", "cause=fenced", why} <= told(site)


@pytest.mark.parametrize("kind", ["link", "pipe", "file"])
@pytest.mark.skipif(ME != 0, reason="root alone gives files away")
def test_a_claim_key_of_another_user_is_ignored(site: Site, kind: str) -> None:
    key = site.spool / CLAIMS_FOLDER / claim_key_file_name_and_contents("file.t0", ME)[0]
    target = site.spool / "his"
    target.write_text("0\n")
    if kind == "pipe":
        os.mkfifo(key)
    else:
        key.symlink_to(target) if kind == "link" else key.write_text("0\n")
    os.chown(key, BOB, BOB, follow_symlinks=False)

    assert run_without_key(site) == (199, "")


@pytest.mark.parametrize("kind", ["link", "pipe", "file", "folder"])
@pytest.mark.skipif(ME != 0, reason="root alone gives files away")
def test_a_claim_path_created_by_another_user_is_reported(site: Site, kind: str) -> None:
    place = site.spool / CLAIMS_FOLDER / f"{ME}.t0"
    makers = {"link": lambda: place.symlink_to("x"), "pipe": lambda: os.mkfifo(place)}
    {**makers, "file": place.touch, "folder": place.mkdir}[kind]()
    os.chown(place, BOB, BOB, follow_symlinks=False)

    assert run(site) == (199, "")
    why = f"reason=fenced: uid {BOB}, who has no claim, made {place}"
    assert {"outcome=requeue", "claim=fenced", "cause=fenced", why} <= told(site)


@pytest.mark.skipif(ME != 0, reason="root alone gives files away")
def test_a_claims_folder_of_another_user_gets_no_key(site: Site) -> None:
    os.chown(site.spool / CLAIMS_FOLDER, BOB, BOB)

    with pytest.raises(StateError, match="not owned by the service"):
        remote_job_claim_script.write_remote_job_claim_key("file.t0", str(site.spool), ME)
    assert not [*(site.spool / CLAIMS_FOLDER).iterdir()]


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
def test_a_home_claim_cannot_be_opened_through_its_link(site: Site, shell: str) -> None:
    """`set -C` alone would open a FIFO or a device."""
    take_home(site)
    os.mkfifo(site.spool / CLAIMS_FOLDER / "claimed-by-home")
    claim_path = str(site.spool / CLAIMS_FOLDER / f"{ME}.t0")
    script = 'set -C; echo 1 2>/dev/null >"$1"; echo $?; [ -L "$1" ] && echo link'
    done = subprocess.run([shell, "-c", script, "sh", claim_path], capture_output=True, text=True, timeout=10)

    assert done.stdout.split()[0] != "0"
    assert done.stdout.split()[1] == "link"


def test_a_claim_file_of_another_user_is_refused_without_revealing_its_token(site: Site) -> None:
    """Any user may read the log."""
    name = claim_file_name(of := remote_job_claim_script.new_remote_job_claim("file"), 1001)
    (site.spool / CLAIMS_FOLDER / name).touch()
    half, word = claim_key_file_name_and_contents(of, 1001)

    with pytest.raises(StateError, match=f"made by uid {ME}; expected the job's owner or the service") as failed:
        remote_job_claims.claim_task_for_home(name, 1001, str(site.spool))
    assert word not in str(failed.value)
    assert f"{CLAIMS_FOLDER}/{half.removesuffix('.key')}..." in str(failed.value)


def test_a_claims_folder_that_is_a_link_is_refused(site: Site, tmp_path: Path) -> None:
    """Any user may create names in the spool."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/old").touch()
    (site.spool / CLAIMS_FOLDER).rmdir()
    (site.spool / CLAIMS_FOLDER).symlink_to(tmp_path / "precious")

    remove_old_claims(site, ages=10)
    with pytest.raises(StateError, match="not owned by the service"):
        take_home(site)
    assert (tmp_path / "precious/old").exists()


def test_old_claims_without_transfer_are_removed_except_home_claims(site: Site) -> None:
    take_home(site, "t1")
    for name in (f"{ME}.t0", f"{ME}.t2"):
        (site.spool / CLAIMS_FOLDER / name).touch()

    remove_old_claims(site, f"{ME}.t2")

    left = sorted(path.name for path in (site.spool / CLAIMS_FOLDER).iterdir())
    assert left == [f"{ME}.t1", f"{ME}.t2"]


@pytest.mark.parametrize("is_run_first", [False, True])
def test_home_can_claim_repeatedly_unless_the_job_has_the_claim(site: Site, is_run_first: bool) -> None:
    if is_run_first:
        run(site)

    assert [take_home(site), take_home(site)] == [not is_run_first] * 2


def test_exactly_one_of_wrapper_and_recall_gets_the_claim(tmp_path: Path) -> None:
    won: set[int] = set()
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        site = make_site(folder)
        (site.spool / CLAIMS_FOLDER).mkdir()
        with ThreadPoolExecutor() as threads:
            home = threads.submit(take_home, site, late_s=turn * STEP_S)
            status, ran = run(site)
        assert (status, ran, home.result()) in [(0, "ran\n", False), (199, "", True)]
        won.add(status)

    assert won == {0, 199}


@pytest.fixture
def granted(site: Site, tmp_path: Path) -> Path:
    return tmp_path / remote_job_claim_script.GRANTS / f"{ME}.t0"


def wait(site: Site, granted: Path, patience_s: int, **values: object) -> int:
    """Run a job that waits for its grant, and return its exit status."""
    lines = remote_job_claim_script.remote_job_claim_shell_lines("grant.t0", f"grant {patience_s} gb_delta", "", ME)
    path = str(granted.parents[2])
    return site.run(script=RUNS, claim=lines.replace("~gb_delta", path), spool="", **values)


def test_a_job_waits_for_its_grant_and_runs(site: Site, granted: Path) -> None:
    granted.parent.mkdir(parents=True)
    wait_s = "until [ -e %s ]; do sleep 0.1; done; sleep 0.5; true >%s"
    mark = site.tmpdir / ".gridbridge/killed"  # the wrapper has begun
    with subprocess.Popen(["sh", "-c", wait_s % (mark, granted)]):
        status = wait(site, granted, 30)

    assert (status, site.out.read_text()) == (0, "ran\n")


def test_a_job_without_grant_does_not_run(site: Site, granted: Path) -> None:
    assert wait(site, granted, 1) == 199
    assert not site.out.exists()


def test_a_granted_job_reports_its_signal(site: Site, granted: Path) -> None:
    granted.parent.mkdir(parents=True)
    granted.touch()
    (site.spool / CLAIMS_FOLDER).rmdir()
    lines = remote_job_claim_script.remote_job_claim_shell_lines("grant.t0", "grant 5 x", "", ME).replace(
        "~x", str(granted.parents[2])
    )
    ended = site.run(script=b"kill -15 $$\n", claim=lines)

    assert (ended, site.told().signal) == (-15, "15")


@pytest.mark.parametrize("kind", ["file", "grant 600 gb_delta"])
def test_a_new_claim_is_a_valid_claim_name(kind: str) -> None:
    assert is_valid_claim_name(remote_job_claim_script.new_remote_job_claim(kind))


@pytest.mark.parametrize("text", ["file.", "file.../x", "none.a", "a", "grant.a b", "file.é"])
def test_an_invalid_claim_name_is_recognized(text: str) -> None:
    assert not is_valid_claim_name(text)
