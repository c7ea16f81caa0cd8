"""Jobs cross to delta, a cluster of another domain that is reached by ssh alone.

Jobs without a fault are sent together; each login fault comes alone, or one of alice's beside one of
bob's.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from gridbridge.transfer.starter.remote_job_submission_step import FIRST_REJECTED_LOGIN_NOTE
from tests.lab import delta
from tests.lab.away import once
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

STRANGER = "gb.alpha.999999.0.1"
TASKS = [str(number) for number in range(1, 21)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    owned: str
    signalled: str
    failed: str
    paused: str
    many: str
    orphan: str


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Iterator[Grid]:
    """Return the lab with its queue to delta open; afterwards delta has no job left."""
    delta.until_open(grid)
    for account in delta.ACCOUNTS.values():
        grid.sh(delta.FAR, "rm -f ran tasks ./*.[oe][0-9]*", user=account)
    with delta.many_slots(grid):
        yield grid
        delta.empty(grid)


@pytest.fixture(scope="module")
def sent(ready: Grid, stranger: None) -> Sent:
    """Submit the jobs of all tests that cause no fault."""
    owned = 'id -un; pwd; echo "$JOB_ID $JOB_NAME $SGE_O_LOGNAME"; exit 7\n'
    return Sent(
        owned=delta.submit(ready, owned),
        signalled=delta.submit(ready, "kill -TERM $$\n", name="signalled"),
        failed=delta.submit(ready, "exit 255\n", name="failed"),
        paused=delta.submit(ready, "sleep 300\n", name="paused"),
        many=delta.submit(ready, 'echo "$SGE_TASK_ID" >>tasks\n', "-t", f"1-{len(TASKS)}", name="many"),
        orphan=delta.submit(ready, "sleep 300\n", name="orphan"),
    )


@pytest.fixture(scope="module")
def stranger(ready: Grid) -> None:
    """Submit a held job at delta that belongs to no transfer."""
    ready.sh(delta.FAR, f"qsub -h -N {STRANGER} -A {STRANGER} -b y true", user=delta.ACCOUNT)
    assert delta.far_jobs_of(ready, "999999")


def test_a_job_runs_in_its_owners_account_and_ends_at_home_as_it_ended_there(ready: Grid, sent: Sent) -> None:
    record = ready.accounting(sent.owned)

    assert ("0", "7") == (record["failed"].split()[0], record["exit_status"])
    expected = f"{delta.ACCOUNT}\n/home/{delta.ACCOUNT}\n{sent.owned} away alice\n"
    assert expected == ready.sh(delta.HOME, f"cat away.o{sent.owned}", user="alice")


@pytest.mark.parametrize(
    ("which", "expected"), [("signalled", "143"), ("failed", "255")], ids=["signal", "ssh's own status"]
)
def test_a_signal_or_ssh_status_ends_the_local_job_alike(ready: Grid, sent: Sent, which: str, expected: str) -> None:
    assert expected == ready.accounting(getattr(sent, which))["exit_status"].split()[0]


def test_a_job_suspended_and_deleted_at_home_is_suspended_and_deleted_at_delta(ready: Grid, sent: Sent) -> None:
    delta.until_far(ready, "paused", "r")
    ready.cell("alpha", "qmod", "-sj", sent.paused)
    delta.until_far(ready, "paused", "hs")
    ready.cell("alpha", "qmod", "-usj", sent.paused)
    delta.until_far(ready, "paused", "r")
    ready.cell("alpha", "qdel", sent.paused)

    ready.until(lambda: not delta.far_jobs_of(ready, sent.paused), "it to be deleted there")


@pytest.mark.long
def test_many_that_are_sent_at_once_run_once_each(ready: Grid, sent: Sent) -> None:
    """The jobs are more than sshd admits at a time (sshd_config(5) MaxStartups, 10 at first)."""
    ready.until_gone(sent.many, limit_s=2 * delta.LONG_S)

    assert sorted(TASKS) == sorted(once(delta.far_read(ready, "tasks").split()))
    assert {"0"} == {each["exit_status"] for each in ready.records(sent.many)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A job that bob sent while delta's sshd was stopped, and the state of a deleted job at delta."""

    job: str
    orphan: str


@pytest.fixture(scope="module")
def stopped(ready: Grid, sent: Sent) -> Stopped:
    delta.until_far(ready, "orphan", "r")
    ready.sh(delta.FAR, "labctl stop sshd")
    try:
        job = delta.submit(ready, delta.RAN, user="bob")
        ready.cell("alpha", "qdel", sent.orphan)
        ready.until_gone(sent.orphan)
        orphan = delta.far_states(ready).get("orphan", "")
        delta.until_told(ready, job, "Connection refused", "bob")
    finally:
        ready.sh(delta.FAR, "labctl start sshd")
    return Stopped(job=job, orphan=orphan)


def test_the_service_deletes_a_job_that_its_starter_could_not_delete(ready: Grid, sent: Sent, stopped: Stopped) -> None:
    assert "r" == stopped.orphan
    ready.until(lambda: not delta.far_jobs_of(ready, sent.orphan), "the service to have deleted it", delta.LONG_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """Two jobs of alice whose key was not authorized, and the key items of `check` (`well`: before).

    `job` was admitted later; `home` could also run at home.
    """

    job: str
    home: str
    ended: dict[str, str]
    well: dict[str, dict[str, str]]
    broken: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def shut(ready: Grid) -> Shut:
    well = keys(ready)
    ready.sh(delta.FAR, "mv .ssh/authorized_keys .ssh/kept", user=delta.ACCOUNT)
    try:
        either = ("-q", f"{delta.QUEUE},all.q", "-soft", "-q", delta.QUEUE, "-o", "/dev/null", "-j", "y")
        home = ready.submit(*either, script="sleep 0\n")
        broken = keys(ready)
        note = f"/tmp/{home}.1.{delta.QUEUE}/.gridbridge/{FIRST_REJECTED_LOGIN_NOTE}"
        ready.until(lambda: ready.on(delta.HOME, "test", "-e", note).status == 0, "a refusal", delta.LONG_S)
        ready.sh(delta.HOME, f"echo 0 >{note}")  # it came long ago
        ended = ready.accounting_of_end(home, delta.LONG_S)
        job = delta.submit(ready, delta.RAN)
        delta.until_told(ready, job, f"does not let the key of alice into the account {delta.ACCOUNT}")
    finally:
        ready.sh(delta.FAR, "mv .ssh/kept .ssh/authorized_keys", user=delta.ACCOUNT)
    return Shut(job=job, home=home, ended=ended, well=well, broken=broken)


@pytest.mark.parametrize("user", ["root", "alice"])
@pytest.mark.long
def test_check_proves_each_key(shut: Shut, user: str) -> None:
    """Root checks the keys of all configured users; other users check only their own key."""
    named = {f"{cluster}: key of alice" for cluster in ("delta", "gamma")}
    named |= {f"{cluster}: key of bob" for cluster in ("delta", "gamma") if user == "root"}
    assert shut.well[user] == dict.fromkeys(named, "ok")
    assert shut.broken[user] == {**shut.well[user], "delta: key of alice": "warning"}


def keys(grid: Grid) -> dict[str, dict[str, str]]:
    """Return the key states that `check` shows to root and to alice."""
    users = ("root", "alice")
    with ThreadPoolExecutor() as pool:
        return dict(zip(users, pool.map(lambda user: keys_of(grid, user), users), strict=True))


def keys_of(grid: Grid, user: str) -> dict[str, str]:
    told = json.loads(grid.on(delta.HOME, "gridbridge", "check", "--json", user=user).out)
    items = {item["name"]: item["state"] for item in told["items"]}
    return {name: state for name, state in items.items() if ": key of " in name}


@pytest.mark.long
def test_a_job_whose_key_is_refused_names_the_keys_owner_and_later_runs_once(ready: Grid, shut: Shut) -> None:
    delta.until_ended_once(ready, shut.job)


@pytest.mark.long
def test_a_job_whose_owner_is_not_let_in_runs_at_home(ready: Grid, shut: Shut) -> None:
    """A job with free slots at home does not wait for an administrator of delta."""
    why = ready.on(delta.HOME, "gridbridge", "why", shut.home, user="alice").out

    assert ("all.q", "0") == (shut.ended["qname"], shut.ended["exit_status"])
    assert f"comes home to run again: ssh: {delta.FAR} does not let the key of alice" in why


def test_a_user_without_an_account_at_a_cluster_is_not_sent_there(ready: Grid) -> None:
    """Bob has an account at delta; the service account submits no job, so it is not listed."""
    asked = ("qsub", "-w", "v", "-q", delta.QUEUE, "-b", "y", "true")
    seen = {user: ready.cell("alpha", *asked, user=user) for user in ("bob", "gridbridge")}
    told = {user: done.out + done.err for user, done in seen.items()}

    assert "found suitable queue" in told["bob"]
    assert "no suitable queues" in told["gridbridge"]


@pytest.mark.long
def test_a_stopped_sshd_is_waited_for(ready: Grid, stopped: Stopped) -> None:
    delta.until_ended_once(ready, stopped.job, "bob")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Jobs whose owners had no right host key of delta; `sent` is their remote jobs at that time."""

    bobs: str
    changed: str
    sent: tuple[str, ...]


@pytest.fixture(scope="module")
def unknown(ready: Grid) -> Iterator[Unknown]:
    """Remove delta's host key for bob and falsify it for alice; then both run the printed commands."""
    adds = f"ssh-keyscan {delta.FAR} >>~/.ssh/known_hosts"
    mends = f"ssh-keygen -R '{delta.FAR}' && {adds}"
    try:
        for user in ("alice", "bob"):
            ready.sh(delta.HOME, "echo 'GlobalKnownHostsFile /dev/null' >.ssh/config", user=user)
        know_another_key(ready)
        bobs = delta.submit(ready, delta.RAN, name="bobs", user="bob")
        changed = delta.submit(ready, delta.RAN)
        told = f"bob does not know {delta.FAR}'s host key; if the key is right, run: {adds}"
        delta.until_told(ready, bobs, told, "bob")
        told = f"{delta.FAR} has another host key than alice knows; if the new key is right, run: {mends}"
        delta.until_told(ready, changed, told)
        sent = (*delta.far_jobs_of(ready, bobs), *delta.far_jobs_of(ready, changed))
        ready.sh(delta.HOME, adds, user="bob")
        ready.sh(delta.HOME, mends, user="alice")
        yield Unknown(bobs=bobs, changed=changed, sent=sent)
    finally:
        for user in ("alice", "bob"):
            ready.sh(delta.HOME, "rm -f .ssh/config .ssh/known_hosts", user=user)


def know_another_key(grid: Grid) -> None:
    """Give alice a false host key for delta."""
    grid.sh(
        delta.HOME,
        "rm -f other*; ssh-keygen -q -t ed25519 -N '' -f other\n"
        f'echo "{delta.FAR} $(cut -d" " -f1,2 other.pub)" >.ssh/known_hosts; rm other*',
        user="alice",
    )


def test_an_unknown_host_key_is_refused_with_the_command_that_adds_it(ready: Grid, unknown: Unknown) -> None:
    """The printed command works as it is, and the job continues."""
    assert () == unknown.sent
    delta.until_ended_once(ready, unknown.bobs, "bob")


def test_a_host_whose_key_has_changed_gets_nothing_until_the_old_one_is_removed(ready: Grid, unknown: Unknown) -> None:
    """The printed command works as it is, and the job continues."""
    assert () == unknown.sent
    delta.until_ended_once(ready, unknown.changed)


def test_a_held_job_that_no_transfer_knows_is_deleted_there(ready: Grid, stranger: None) -> None:
    """The service is an operator of delta, and waits a minute for a record before it deletes the job."""
    ready.until(lambda: not delta.far_jobs_of(ready, "999999"), "the service to delete it", delta.LONG_S)
