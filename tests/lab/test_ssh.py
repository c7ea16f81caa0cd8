"""Jobs cross to delta, a cluster of another domain that is reached by ssh alone."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.away import once
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

HOME, FAR = "alpha-master", "delta-master"
ACCOUNT = "al_delta"
QUEUE = "transfer-delta"
RAN = 'echo "$JOB_ID" >>ran\n'
SILENT_S = 45  # a question is waited for 16 s, and the next one comes 15 s later at most
LONG_S = 120  # a retry comes after a minute at most, and a command gives up after 15 s


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Grid:
    """Return the lab with its queue to delta open."""
    until_open(grid)
    return grid


@pytest.fixture(autouse=True)
def healed(ready: Grid) -> Iterator[None]:
    """Leave delta as it was, without a job, however a test ended."""
    ready.sh(FAR, "rm -f ran go ./*.[oe][0-9]*", user=ACCOUNT)
    yield
    ready.lab("net", FAR, "heal")
    ready.sh(FAR, "labctl thaw qmaster; labctl start sshd; :")
    ready.sh(FAR, "[ ! -e .ssh/kept ] || mv .ssh/kept .ssh/authorized_keys", user=ACCOUNT)
    ready.sh(HOME, "rm -f .ssh/config .ssh/known_hosts", user="alice")
    ready.sh(HOME, "qdel -u alice; :", user="alice")
    ready.until(lambda: not ready.states(), "home to be empty", LONG_S)
    ready.sh(FAR, "qdel -u '*'; :")
    ready.until(lambda: not far_jobs(ready), "delta to be empty")
    until_open(ready)


def until_open(grid: Grid) -> None:
    grid.until(lambda: is_open(grid), f"{QUEUE} to be open")


def is_open(grid: Grid) -> bool:
    rows = grid.cell("alpha", "qstat", "-f", "-q", QUEUE, user="root").out.splitlines()
    return any(len(row.split()) == 5 for row in rows if row.startswith(f"{QUEUE}@"))


def submit(grid: Grid, script: str, *options: str) -> str:
    return grid.submit("-q", QUEUE, "-N", "away", *options, script=script)


def far_jobs(grid: Grid) -> list[str]:
    """Return delta's jobs, a line each."""
    return grid.sh(FAR, "qstat -u '*'").splitlines()[2:]


def until_far(grid: Grid, letters: str) -> None:
    """Wait until delta's only job is in that state."""
    grid.until(lambda: far_states(grid) == [letters], f"delta's job to be {letters}")


def far_states(grid: Grid) -> list[str]:
    return [row.split()[4] for row in far_jobs(grid)]


def far_read(grid: Grid, name: str) -> str:
    """Return a file of the account's home at delta, empty when it is not there."""
    return grid.sh(FAR, f"cat {name} 2>/dev/null || :", user=ACCOUNT)


def far_records(grid: Grid, job: str) -> list[str]:
    """Return the account lines of a local job's records in delta's accounting."""
    out = grid.on(FAR, "qacct", "-o", ACCOUNT, "-j").out.splitlines()
    return [row for row in out if row.startswith("account") and f"gb.alpha.{job}." in row]


def why(grid: Grid, job: str) -> str:
    return grid.on(HOME, "gridbridge", "why", job, user="alice").out


def until_told(grid: Grid, job: str, words: str) -> None:
    """Wait until `gridbridge why` tells what the job waits for."""
    grid.until(lambda: words in why(grid, job) or None, f"why {job} to tell {words!r}")


def until_ended_once(grid: Grid, job: str) -> None:
    """Wait for the end at home; the job ran there once, and nothing of it is left there."""
    record = grid.accounting(job, limit_s=LONG_S)

    assert ("0", "0") == (record["failed"].split()[0], record["exit_status"])
    assert [job] == once(far_read(grid, "ran").split())
    assert 1 == len(far_records(grid, job))
    grid.until(lambda: not far_jobs(grid), "delta to have no job of it")


def test_a_job_runs_in_its_owners_account_and_ends_at_home_as_it_ended_there(ready: Grid) -> None:
    job = submit(ready, 'id -un; pwd; echo "$JOB_ID $JOB_NAME $SGE_O_LOGNAME"; exit 7\n')
    record = ready.accounting(job)

    assert ("0", "7") == (record["failed"].split()[0], record["exit_status"])
    expected = f"{ACCOUNT}\n/home/{ACCOUNT}\n{job} away alice\n"
    assert expected == far_read(ready, f"away.o{job}")


@pytest.mark.parametrize(
    ("script", "expected"),
    [("kill -TERM $$\n", "143"), ("exit 255\n", "255")],
    ids=["signal", "ssh's own status"],
)
def test_an_end_is_the_same_end(ready: Grid, script: str, expected: str) -> None:
    job = submit(ready, script)

    assert expected == ready.accounting(job)["exit_status"].split()[0]


def test_a_job_that_is_suspended_and_deleted_at_home_is_so_there(ready: Grid) -> None:
    job = submit(ready, "sleep 300\n")
    until_far(ready, "r")
    ready.cell("alpha", "qmod", "-sj", job)
    until_far(ready, "hs")
    ready.cell("alpha", "qmod", "-usj", job)
    until_far(ready, "r")
    ready.cell("alpha", "qdel", job)

    ready.until(lambda: not far_jobs(ready), "it to be deleted there")


def test_a_stopped_sshd_is_waited_for(ready: Grid) -> None:
    ready.sh(FAR, "labctl stop sshd")
    job = submit(ready, RAN)
    until_told(ready, job, "Connection refused")
    ready.sh(FAR, "labctl start sshd")

    until_ended_once(ready, job)


def test_a_key_without_permission_is_told_with_whose_it_is(ready: Grid) -> None:
    ready.sh(FAR, "mv .ssh/authorized_keys .ssh/kept", user=ACCOUNT)
    job = submit(ready, RAN)
    until_told(ready, job, f"does not let the key of alice into the account {ACCOUNT}")
    ready.sh(FAR, "mv .ssh/kept .ssh/authorized_keys", user=ACCOUNT)

    until_ended_once(ready, job)


@pytest.mark.parametrize("user", ["root", "alice"])
def test_check_proves_each_key(ready: Grid, user: str) -> None:
    """Root proves those of everybody who is named, anybody else their own."""
    well = keys(ready, user)
    ready.sh(FAR, "mv .ssh/authorized_keys .ssh/kept", user=ACCOUNT)
    broken = keys(ready, user)
    ready.sh(FAR, "mv .ssh/kept .ssh/authorized_keys", user=ACCOUNT)

    named = {f"{cluster}: key of alice" for cluster in ("delta", "gamma")}
    named |= {f"{cluster}: key of bob" for cluster in ("delta", "gamma") if user == "root"}
    assert well == dict.fromkeys(named, "ok")
    assert broken == {**well, "delta: key of alice": "warning"}


def keys(grid: Grid, user: str) -> dict[str, str]:
    """Return the state of each key that check looks at."""
    told = json.loads(grid.on(HOME, "gridbridge", "check", "--json", user=user).out)
    items = {item["name"]: item["state"] for item in told["items"]}
    return {name: state for name, state in items.items() if ": key of " in name}


def test_an_unknown_host_key_is_refused_with_the_command_that_adds_it(ready: Grid) -> None:
    """The command is run as it is told, and the job goes on."""
    ready.sh(HOME, "echo 'GlobalKnownHostsFile /dev/null' >.ssh/config", user="alice")
    job = submit(ready, RAN)
    adds = f"ssh-keyscan {FAR} >>~/.ssh/known_hosts"
    until_told(ready, job, f"alice does not know {FAR}'s host key; if it is right: {adds}")
    ready.sh(HOME, adds, user="alice")

    until_ended_once(ready, job)


def test_a_host_whose_key_has_changed_gets_nothing_until_the_old_one_is_removed(
    ready: Grid,
) -> None:
    """The command that is told is run as it stands, and the job goes on."""
    ready.sh(
        HOME,
        "echo 'GlobalKnownHostsFile /dev/null' >.ssh/config; rm -f other*\n"
        "ssh-keygen -q -t ed25519 -N '' -f other\n"
        f'echo "{FAR} $(cut -d" " -f1,2 other.pub)" >.ssh/known_hosts; rm other*',
        user="alice",
    )
    job = submit(ready, RAN)
    mends = f"ssh-keygen -R '{FAR}' && ssh-keyscan {FAR} >>~/.ssh/known_hosts"
    until_told(
        ready, job, f"{FAR} has another host key than alice knows; if that is right: {mends}"
    )
    sent = far_jobs(ready)
    ready.sh(HOME, mends, user="alice")

    assert not sent
    until_ended_once(ready, job)


def test_a_network_that_is_cut_during_the_submission_leads_to_one_job(ready: Grid) -> None:
    """The qmaster is frozen, so that qsub waits there for its answer while the cut comes."""
    ready.sh(FAR, "labctl freeze qmaster")
    job = submit(ready, RAN)
    ready.until(lambda: ready.on(FAR, "pgrep", "-x", "qsub").out, "qsub to wait at delta")
    ready.lab("net", FAR, "cut")
    until_told(ready, job, f"no whole answer from {FAR}, which may have done it")
    ready.sh(FAR, "labctl thaw qmaster")
    ready.lab("net", FAR, "heal")

    until_ended_once(ready, job)


def test_many_that_are_sent_at_once_run_once_each(ready: Grid) -> None:
    """More than sshd lets in at a time (sshd_config(5) MaxStartups, 10 at first)."""
    tasks = [str(number) for number in range(1, 21)]
    job = submit(ready, 'echo "$SGE_TASK_ID" >>ran\n', "-t", f"1-{len(tasks)}")
    ready.until_gone(job, limit_s=2 * LONG_S)

    assert sorted(tasks) == sorted(once(far_read(ready, "ran").split()))
    assert {"0"} == {each["exit_status"] for each in ready.records(job)}


def test_a_job_that_ends_while_nobody_can_ask_comes_home_later(ready: Grid) -> None:
    job = submit(ready, f"until [ -e go ]; do sleep 0.2; done\n{RAN}")
    until_far(ready, "r")
    ready.lab("net", FAR, "cut")
    until_told(ready, job, "delta, which has not answered")
    ready.sh(FAR, "touch go", user=ACCOUNT)
    ready.until(lambda: far_read(ready, "ran"), "the job to end at delta")
    ready.lab("net", FAR, "heal")
    ready.sh(FAR, "rm go", user=ACCOUNT)

    until_ended_once(ready, job)


def test_what_the_starter_could_not_delete_the_service_does_as_its_owner(ready: Grid) -> None:
    job = submit(ready, "sleep 300\n")
    until_far(ready, "r")
    ready.sh(FAR, "labctl stop sshd")
    ready.cell("alpha", "qdel", job)
    ready.until_gone(job)
    running = far_jobs(ready)
    ready.sh(FAR, "labctl start sshd")

    assert 1 == len(running)
    ready.until(lambda: not far_jobs(ready), "the service to have deleted it")


def test_a_held_job_that_no_transfer_knows_is_deleted_there(ready: Grid) -> None:
    """The service's account is an operator of delta; it waits a minute for a record."""
    name = "gb.alpha.999999.0.1"
    submitted = ready.on(FAR, "qsub", "-h", "-N", name, "-A", name, "-b", "y", "true", user=ACCOUNT)

    assert 0 == submitted.status
    ready.until(lambda: not far_jobs(ready), "the service to delete it", LONG_S)


def test_the_service_keeps_one_connection_and_makes_another_when_it_is_lost(ready: Grid) -> None:
    """Between two of its questions nothing is connected anew."""
    before = ready.until(lambda: sessions(ready), "the service's connection")
    asked = [answered_at(ready)]
    ready.until(lambda: newly_asked(ready, asked) > 2, "more answers")

    assert (1, before) == (len(before), sessions(ready))

    ready.sh(FAR, f"kill {before[0]}")
    ready.until(lambda: sessions(ready) not in ([], before), "another connection")
    ready.until(lambda: newly_asked(ready, asked) > 4, "answers over it")

    assert 1 == len(sessions(ready))


def test_a_connection_of_the_service_that_a_cut_leaves_open_is_given_up_and_replaced(
    ready: Grid,
) -> None:
    """Nobody ends it: what is sent over it is not answered any more."""
    before = ready.until(lambda: connections(ready), "the service's connection")
    ready.lab("net", FAR, "cut")
    ready.until(lambda: not connections(ready), "it to be given up", SILENT_S)
    ready.lab("net", FAR, "heal")
    asked = [answered_at(ready)]
    ready.until(lambda: newly_asked(ready, asked) > 2, "more answers")

    assert 1 == len(connections(ready))
    assert before != connections(ready)


def test_what_a_full_sshd_turns_away_waits_and_runs_once(ready: Grid) -> None:
    """The service is in, and goes on; when its connection ends it waits for its turn as well."""
    with full_sshd(ready) as holder:
        job = submit(ready, 'echo "$SGE_TASK_ID" >>ran\n', "-t", "1-4")
        until_told(ready, job, f"can't reach {FAR}: kex_exchange_identification")
        asked = [answered_at(ready)]
        ready.until(lambda: newly_asked(ready, asked) > 2, "answers meanwhile")
        ready.sh(FAR, f"kill {' '.join(sessions(ready))}")
        ready.until(
            lambda: f"can't reach {FAR}" in unreached(ready), "the service to be turned away"
        )
        sent = far_jobs(ready)
        ready.sh(FAR, f"kill {holder}")
        ready.until_gone(job, limit_s=2 * LONG_S)

    assert not sent
    assert ["1", "2", "3", "4"] == sorted(far_read(ready, "ran").split())
    assert {"0"} == {each["exit_status"] for each in ready.records(job)}
    assert 4 == len(far_records(ready, job))


@contextmanager
def full_sshd(grid: Grid) -> Iterator[str]:
    """Let delta's sshd have one connection that is not in yet, and hold it; gives who does."""
    setting = "/etc/ssh/sshd_config.d/full.conf"
    hold = "exec 3<>/dev/tcp/localhost/22; read -r -u 3 _; sleep 600 >/dev/null 2>&1 & echo $!"
    lines = "MaxStartups 1\\nLoginGraceTime 0\\n"
    grid.sh(FAR, f"printf '{lines}' >{setting}; labctl restart sshd")
    holder = grid.on(FAR, "bash", "-c", hold).out.strip()
    try:
        yield holder
    finally:
        grid.sh(FAR, f"rm {setting}; labctl restart sshd; kill {holder} 2>/dev/null; :")


def unreached(grid: Grid) -> str:
    """Return what `gridbridge status` says of delta."""
    told = json.loads(grid.on(HOME, "gridbridge", "status", "--json").out)
    return next(str(each) for each in told["clusters"] if each["cluster"] == "delta")


def connections(grid: Grid) -> list[str]:
    """Return the ports of home by which anything is connected to delta's sshd."""
    told = grid.sh(HOME, f"ss -Htn state established dst {FAR}:22").splitlines()
    return [line.split()[2].rpartition(":")[2] for line in told]


def test_the_service_does_not_take_an_unknown_host_for_delta(ready: Grid) -> None:
    known = "/etc/ssh/ssh_known_hosts"
    ready.sh(HOME, f"mv {known} {known}.kept")
    try:
        ready.sh(FAR, f"kill {' '.join(sessions(ready))}")
        words = f"gridbridge does not know {FAR}'s host key"
        ready.until(lambda: words in ready.on(HOME, "gridbridge", "status").out, "that to be told")
    finally:
        ready.sh(HOME, f"mv {known}.kept {known}")


def test_jobs_that_wait_there_keep_no_connection_but_the_services_one(ready: Grid) -> None:
    submit(ready, "sleep 300\n", "-t", "1-8")
    ready.until(lambda: len(far_jobs(ready)) == 8, "all tasks to be at delta", LONG_S)
    ready.until(lambda: not sessions(ready, ACCOUNT), "the starters to have hung up")
    asked = [answered_at(ready)]
    ready.until(lambda: newly_asked(ready, asked) > 2, "more answers")

    assert ([], 1) == (sessions(ready, ACCOUNT), len(sessions(ready)))


def sessions(grid: Grid, account: str = "gb_delta") -> list[str]:
    """Return the processes of sshd that serve an account, by default the service's."""
    return grid.on(FAR, "pgrep", "-f", f"^sshd: {account}@").out.split()


def answered_at(grid: Grid) -> str:
    path = "/var/lib/gridbridge/published/clusters/delta.json"
    told: str = json.loads(grid.sh(HOME, f"cat {path}"))["taken_at"]
    return told


def newly_asked(grid: Grid, asked: list[str]) -> int:
    """Note the time of delta's last answer, and return how many there have been."""
    if (at := answered_at(grid)) != asked[-1]:
        asked.append(at)
    return len(asked)
