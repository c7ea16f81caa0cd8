"""gridbridge-as-user executes one verb for the owner of a record, and refuses everything else."""

import secrets
from collections.abc import Iterator

import pytest

from tests.lab.grid import Done, Grid

pytestmark = pytest.mark.lab

HOST = "alpha-master"
SPOOL = "/var/spool/gridbridge"
PROGRAM = "/opt/gridbridge/bin/gridbridge-as-user"
LOCK = "/var/lib/gridbridge/poller.lock"
CONFIG = "/etc/gridbridge/gridbridge.toml"
NAME = "gb.alpha.900001.0.1"


@pytest.fixture(scope="module", autouse=True)
def no_poller(grid: Grid) -> Iterator[None]:
    """Stop the poller, which would consume the test's records."""
    grid.sh(HOST, f"setsid flock {LOCK} sleep 300 </dev/null >/dev/null 2>&1 & echo $! >/run/holder")
    grid.on(HOST, "pkill", "-f", "gridbridge.transfer.poller.program")
    grid.until(lambda: "sleep 300" in grid.sh(HOST, f"fuser -v {LOCK} 2>&1; pgrep -af sleep"), "lock")
    yield
    grid.on(HOST, "sh", "-c", 'pkill -g "$(cat /run/holder)"; pkill -f "flock /var/lib/gridb"')
    grid.require_ready()


def as_user(grid: Grid, *arguments: str, user: str = "gridbridge") -> Done:
    return grid.on(HOST, "sudo", "-n", PROGRAM, *arguments, user=user)


def write_record(grid: Grid, user: str = "alice", mode: str = "644", **values: str) -> str:
    name = f"m.{secrets.token_hex(8)}"
    known = {"kind": "record", "transfer": NAME, "remote": "beta", "phase": "released"} | values
    text = "\\n".join(f"{key}={value}" for key, value in known.items() if value)
    grid.sh(HOST, f"printf '{text}\\n' >{SPOOL}/{name}; chmod {mode} {SPOOL}/{name}", user=user)
    return name


def a_job(grid: Grid, user: str = "alice", account: str = NAME) -> str:
    options = ("-h", "-N", NAME, "-A", account, "-o", "/dev/null", "-j", "y")
    return grid.submit(*options, user=user, cluster="beta", script="sleep 60\n")


@pytest.fixture(scope="module")
def held(grid: Grid) -> Iterator[str]:
    """Return a held job of alice that must stay unchanged."""
    job = a_job(grid)
    yield job
    grid.cell("beta", "qdel", job)


def state(grid: Grid, job: str) -> str:
    return grid.states("beta").get(job, "")


def test_each_verb_acts_as_the_owner_of_the_record(grid: Grid) -> None:
    job = a_job(grid)
    record = write_record(grid, remote_id=job)

    assert as_user(grid, "release", record) == Done(status=0, out="", err="")
    grid.until(lambda: state(grid, job) == "r", "the job to run", 30)
    for verb, letters in (("suspend", "hs"), ("resume", "r"), ("hold", "hr"), ("release", "r")):
        assert as_user(grid, verb, record).status == 0
        assert state(grid, job) == letters
    assert as_user(grid, "delete", record).status == 0
    grid.until_gone(job, "beta", 30)
    assert as_user(grid, "delete", record).status == 0  # gone is deleted


def test_a_job_whose_id_is_unknown_is_found_by_its_name_and_owner(grid: Grid) -> None:
    theirs, job = a_job(grid, user="bob"), a_job(grid)

    assert as_user(grid, "delete", write_record(grid)).status == 0

    grid.until_gone(job, "beta", 30)
    assert state(grid, theirs) == "hqw"
    grid.cell("beta", "qdel", theirs, user="bob")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("delete",),
        ("delete", "{record}", "{record}"),
        ("delete", "{record}", "; id"),
        ("submit", "{record}"),
        ("sh", "{record}"),
        ("-c", "id"),
        ("delete", "/var/spool/gridbridge/{record}"),
        ("delete", "../gridbridge/{record}"),
        ("delete", "m./{record}"),
        ("delete", "m."),
        ("delete", "-h"),
        ("delete", "wake"),
        ("delete", "m.0000"),
        ("delete", "m.\u0661"),
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_anything_but_a_verb_and_a_record_is_refused(grid: Grid, held: str, arguments: tuple[str, ...]) -> None:
    record = write_record(grid, remote_id=held)

    done = as_user(grid, *[word.format(record=record) for word in arguments])

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gridbridge-as-user: ")
    assert state(grid, held) == "hqw"


FORGERIES = {
    "a link to a record": "ln -s {spool}/{record} {spool}/{new}",
    "a record with a second link": "ln {spool}/{record} {spool}/{new}",
    "what others may write": "cp {spool}/{record} {spool}/{new}; chmod 646 {spool}/{new}",
    "what its group may write": "cp {spool}/{record} {spool}/{new}; chmod 664 {spool}/{new}",
    "a FIFO": "mkfifo {spool}/{new}",
    "a folder": "mkdir {spool}/{new}",
    "a long one": "head -c 5000 /dev/zero >{spool}/{new}",
    "a command": "printf 'kind=record\\ncommand=id\\n' >{spool}/{new}",
    "no record": "sed s/kind=record/kind=intent/ {spool}/{record} >{spool}/{new}",
    "no transfer": "sed s/900001/x/ {spool}/{record} >{spool}/{new}",
    "a command as an id": "sed 's/remote_id=.*/remote_id=-help/' {spool}/{record} >{spool}/{new}",
    "an unknown cluster": "sed s/remote=beta/remote=omega/ {spool}/{record} >{spool}/{new}",
    "our own cluster": "sed s/remote=beta/remote=alpha/ {spool}/{record} >{spool}/{new}",
    "another tag": "sed s/900001/900002/ {spool}/{record} >{spool}/{new}",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_an_invalid_record_is_refused(grid: Grid, held: str, forgery: str) -> None:
    record, new = write_record(grid, remote_id=held), f"m.{secrets.token_hex(8)}"
    grid.sh(HOST, "umask 022; " + forgery.format(spool=SPOOL, record=record, new=new), user="alice")

    done = as_user(grid, "delete", new)

    refused = 3 if forgery == FORGERIES["another tag"] else 2
    assert (done.status, done.out) == (refused, ""), done
    assert state(grid, held) == "hqw"
    grid.sh(HOST, f"rm -rf {SPOOL}/{new} {SPOOL}/{record}")


@pytest.mark.parametrize(
    ("writer", "owner", "account"),
    [("bob", "alice", NAME), ("alice", "bob", NAME), ("alice", "alice", "sge")],
    ids=["another's job", "another's record", "not a transfer's"],
)
def test_the_job_has_to_be_the_owners_and_the_transfers(grid: Grid, writer: str, owner: str, account: str) -> None:
    job = a_job(grid, user=owner, account=account)
    record = write_record(grid, user=writer, remote_id=job)

    done = as_user(grid, "delete", record)

    assert (done.status, "expected account gb.alpha.900001.0.1" in done.err) == (3, True), done
    assert state(grid, job) == "hqw"
    grid.cell("beta", "qdel", job, user=owner)


@pytest.mark.parametrize(("user", "uid"), [("root", "0"), ("gridbridge", ""), ("sgeadmin", "")])
def test_nothing_is_done_as_root_or_a_system_account(grid: Grid, user: str, uid: str) -> None:
    uid = uid or grid.sh(HOST, f"id -u {user}").strip()
    record = write_record(grid, user="root", remote_id="1")
    grid.sh(HOST, f"chown {uid} {SPOOL}/{record}")

    low = grid.sh(HOST, f"awk '/^min_uid/ {{print $3}}' {CONFIG}").strip()
    done = as_user(grid, "delete", record)

    if int(uid) < int(low or 1000):
        assert (done.status, done.err) == (2, f"gridbridge-as-user: {record}: uid {uid} is not an ordinary account\n")
    else:
        assert done.status == 2


def test_a_uid_without_an_account_is_nobody(grid: Grid) -> None:
    record = write_record(grid, user="root", remote_id="1")
    grid.sh(HOST, f"chown 54321 {SPOOL}/{record}")

    assert as_user(grid, "delete", record).err == "gridbridge-as-user: uid 54321 has no account\n"


@pytest.mark.parametrize("spoil", ["chmod o+w", "chmod g+w", "chown alice"])
def test_a_configuration_that_others_may_write_is_refused(grid: Grid, spoil: str) -> None:
    record = write_record(grid, remote_id="1")
    try:
        done = grid.on(HOST, "sh", "-c", f"{spoil} {CONFIG}") and as_user(grid, "delete", record)
    finally:
        grid.sh(HOST, f"chown root {CONFIG}; chmod 644 {CONFIG}")

    assert done.status == 2
    assert CONFIG in done.err


def test_sudo_lets_the_service_run_this_program_and_nobody_anything_else(grid: Grid) -> None:
    others = [as_user(grid, "delete", "m.0", user=user) for user in ("alice", "bob")]
    ours = [
        grid.on(HOST, "sudo", "-n", *argv, user="gridbridge")
        for argv in (("id",), ("/bin/sh",), ("-u", "alice", PROGRAM), ("-e", "/etc/shadow"))
    ]

    assert all("password is required" in done.err for done in others + ours), others + ours


def test_the_environment_and_folder_of_the_caller_do_not_reach_it(grid: Grid) -> None:
    """Variables of Python and the loader, and modules in the caller's folder, are ignored."""
    done = grid.on(
        HOST,
        "sh",
        "-c",
        "mkdir -p /tmp/evil && cd /tmp/evil && echo 'print(1/0)' >os.py && cp os.py tomllib.py &&"
        " LD_PRELOAD=/tmp/evil/x.so PYTHONPATH=/tmp/evil PYTHONSTARTUP=/tmp/evil/os.py"
        f" PYTHONHOME=/tmp/evil sudo -n {PROGRAM} delete m.0000",
        user="gridbridge",
    )

    assert done.status == 2
    assert done.err.endswith("m.0000: No such file or directory: /var/spool/gridbridge/m.0000\n")


def test_only_root_can_change_gridbridge_as_user(grid: Grid) -> None:
    out = grid.sh(HOST, "find -L /opt/gridbridge ! -type l -perm /022 -o ! -uid 0 | head; id -u")

    assert out.split() == ["0"]
