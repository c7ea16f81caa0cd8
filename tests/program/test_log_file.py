"""After a log rotation the events and other output of a program go to the new file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gridbridge.model.fixed_paths import HOME
from tests.builders.configurations import site_text

CONF = Path(__file__).parents[2] / "conf/logrotate.d/gridbridge"
PROGRAM = """
import logging, sys
from gridbridge.shell.log_file_reopening_and_line_limits import ReopeningLogHandler
logging.basicConfig(format="%(message)s", level=logging.INFO, handlers=[ReopeningLogHandler()])
for line in sys.stdin:
    logging.info("event=%s", line.strip())
    print("printed", line.strip(), flush=True)
"""


SERVICE = """
import logging, os, sys
from types import SimpleNamespace
from gridbridge.program import service_cycle as process
process.start_service_log_on_stderr(SimpleNamespace(site=SimpleNamespace(log_level="info")))
os.rename(sys.argv[1], f"{sys.argv[1]}.1")
logging.info("event=second")
"""


FILLS = """
import logging, os, sys
from gridbridge.shell.log_file_reopening_and_line_limits import ReopeningLogHandler
logging.basicConfig(format="%(message)s", level=logging.INFO, handlers=[ReopeningLogHandler()])
for line in sys.stdin:
    if line == "after\\n":
        os.remove(sys.argv[1])
    logging.info("event=%s", line.strip())
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "runner.log"


def events(log: Path, *lines: str, between: str = "true") -> None:
    """Run a program that logs these lines, with a shell command before each line."""
    feed = "; ".join(f"echo {line}; sleep 2; {between}" for line in lines)
    with log.open("ab") as end:
        subprocess.run(
            ["sh", "-c", f'{{ {feed}; }} | "$0" -c "$1"', sys.executable, PROGRAM],
            stdout=end, stderr=end, check=True, timeout=30, cwd=log.parent,
        )  # fmt: skip


@pytest.mark.parametrize("between", ["mv {0} {0}.1", "mv {0} {0}.1; : >{0}"], ids=["", "created"])
def test_a_program_continues_in_the_new_log_file(log: Path, between: str) -> None:
    events(log, "first", "second", between=f"[ -e {log}.1 ] || {{ {between.format(log)}; }}")

    assert Path(f"{log}.1").read_text() == "event=first\nprinted first\n"
    assert log.read_text() == "event=second\nprinted second\n"


def test_the_log_of_a_service_follows_a_rotation(log: Path) -> None:
    with log.open("ab") as end:
        subprocess.run([sys.executable, "-c", SERVICE, str(log)], stderr=end, check=True)

    assert log.read_text().endswith(" event=second\n")


def test_a_log_without_rotation_is_appended(log: Path) -> None:
    log.write_text("before\n")
    events(log, "first")

    assert log.read_text() == "before\nevent=first\nprinted first\n"


def test_a_very_long_event_is_shortened_in_the_middle(log: Path) -> None:
    """User and cluster texts may be part of an event."""
    events(log, f"begin{'x' * 100_000}end")

    event, _ = log.read_text().splitlines()
    assert event.startswith("event=beginxxx")
    assert event.endswith("xxxend")
    assert len(event) < 17_000


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_line_cut_by_a_full_disk_gets_its_newline(tmp_path: Path) -> None:
    """The program or the next program writes the newline."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", tmp_path], check=True)
    try:
        log, rest = tmp_path / "runner.log", tmp_path / "rest"
        rest.write_bytes(b"x" * 4096)
        many = [f"{number}-{'x' * 700}" for number in range(8)]
        with log.open("ab") as end:
            program = subprocess.Popen(
                [sys.executable, "-c", FILLS, str(rest)],
                stdin=subprocess.PIPE, stderr=end, text=True,
            )  # fmt: skip
            program.communicate("".join(f"{line}\n" for line in (*many, "after")), timeout=30)
        found = log.read_text().splitlines()
        with log.open("a") as end:
            end.write("event=cut of anot")
        events(log, "next")
        later = log.read_text().splitlines()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)

    assert found[-1] == "event=after"
    assert re.fullmatch("event=5-x+", found[-2])
    assert len(found[-2]) < len(found[0])
    assert later[-3:] == ["event=cut of anot", "event=next", "printed next"]


def test_a_standard_error_that_is_no_file_is_kept(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], input="first\n", capture_output=True, text=True, check=True)

    assert (done.stderr, done.stdout) == ("event=first\n", "printed first\n")


def test_every_log_of_a_cron_job_is_rotated() -> None:
    root, rules = CONF.parents[2], CONF.read_text()
    texts = [*(root / "conf/cron.d").iterdir(), *(root / "docs").rglob("*.md")]
    texts.append(root / "gridbridge/decisions/site/campaign_and_data_findings.py")
    logs = {log.replace("{HOME}", HOME) for text in texts for log in re.findall(r">>(\S+\.log)", text.read_text())}

    assert f"{HOME}/datasets.log" in logs
    assert {log for log in logs if not re.search(rf"^(.* )?{log} ", rules, re.MULTILINE)} == set()


LOOP = """
import os, sys
from gridbridge.elastic.cli import balance_program as program
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.elastic.balancer import balancer_configuration_reload as lasting
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan

def rounds(wanted, path, renew):
    for sentence in ("first", "second"):
        told = BalancePlanReport(add=0, pool=None, remove=(), sentence=sentence, refused=())
        wanted.tell(BalancerRoundPlan(plan=None, dues=(), told=told))
        os.path.exists(sys.argv[1]) or os.rename(sys.argv[2], sys.argv[1])

lasting.run_balancer_forever = rounds
program.balance(["--config", sys.argv[3], "--loop"], standalone_mode=False)
"""
SITE = f"{site_text('alpha')}[balance]\nmax_nodes = 9\napply = true\n"


@pytest.mark.parametrize("has_errors", [False, True], ids=["output alone", "both streams"])
def test_the_sentence_of_a_balancer_round_follows_a_rotation(log: Path, *, has_errors: bool) -> None:
    site = log.with_name("site.toml")
    site.write_text(SITE)
    with log.open("ab") as end, log.with_name("errors").open("ab") as errors:
        subprocess.run(
            [sys.executable, "-c", LOOP, f"{log}.1", str(log), str(site)],
            stdout=end, stderr=end if has_errors else errors, check=True, timeout=30,
        )  # fmt: skip

    assert Path(f"{log}.1").read_text().split()[1:] == ["first"]
    assert log.read_text().split()[1:] == ["second"]


@pytest.mark.skipif(not shutil.which("logrotate"), reason="needs logrotate")
def test_logrotate_accepts_the_shipped_file(log: Path, tmp_path: Path) -> None:
    log.write_text("event=first\n")
    rules = [line for line in CONF.read_text().splitlines() if not line.strip().startswith("su ")]
    shipped = "\n".join(rules).replace("/var/lib/gridbridge/runner.log", str(log))
    (tmp_path / "conf").write_text(shipped)
    (tmp_path / "conf").chmod(0o644)
    argv = ["logrotate", "--force", "--state", str(tmp_path / "state"), str(tmp_path / "conf")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert (log.exists(), Path(f"{log}.1").read_text()) == (False, "event=first\n")
