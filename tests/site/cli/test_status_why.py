"""gridbridge status and why: golden text, JSON shapes and exit statuses."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.command_groups_and_options import format_local_time
from gridbridge.cli.main import gridbridge
from gridbridge.cli.output_and_errors import print_line
from gridbridge.errors import StateError
from gridbridge.program.status_and_why_reports import build_site_status_report, explain_transfers_of_local_job
from gridbridge.site.cli import status_command, why_command
from gridbridge.site.cli.status_watch import TerminalText, print_in_place, watch_report
from tests.shown import NOW, ago, cluster, history, load, publish, queue, shown, transfer
from tests.site.test_explanation import NUMBER, site

pytestmark = pytest.mark.usefixtures("utc")

WAITING = transfer(transfer="gb.alpha.13.2.1", remote_id=35, remote_state="qw", remote_host="", since=ago(90000))


def run(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, words)


def test_status_prints_three_aligned_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = publish(tmp_path, shown(transfer(name="fit"), WAITING))

    status_command.print_status_report(build_site_status_report(NOW, folder), NOW)

    assert capsys.readouterr().out == (
        "CLUSTER  ANSWERS  WAITING  FREE SLOTS\n"
        "alpha    yes      2        0           answered 4 s ago\n"
        "beta     yes      2        0           answered 4 s ago\n"
        "\n"
        "QUEUE          LEADS TO  OPEN  SLOTS USED\n"
        "transfer-beta  beta      yes   1 of 2\n"
        "\n"
        "JOB   NAME  OWNER  HERE  SINCE     CLUSTER  ID  THERE  SINCE                HOST     WAITS FOR\n"
        "12    fit   alice  r     11:55:00  beta     34  r      11:56:40             beta-n1  its end\n"
        "13.2  -     alice  r     11:55:00  beta     35  qw     2026-02-28 11:00:00  -        "
        "a free slot (2 waiting, 0 free)\n"
    )


def test_status_begins_with_the_alarm_of_a_silent_poller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = publish(tmp_path, shown(load=load(age_s=95)))

    status_command.print_status_report(build_site_status_report(NOW, folder), NOW)

    first, empty, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("gridbridge-poller is silent for 95 s (the limit is 30 s)")
    assert empty == ""


def test_status_gives_one_reason_for_a_closed_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = cluster("beta", trouble="qstat: error: no route", pending=None, free_slots=None)
    home = cluster("alpha", queue(state="a"))
    what = shown(transfer(), clusters={"alpha": home, "beta": dead}, load=load({"gb_beta_up": "0"}))

    status_command.print_status_report(build_site_status_report(NOW, publish(tmp_path, what)), NOW)

    out = capsys.readouterr().out
    assert "beta     no       -        -           has not answered for 4 s: qstat" in out
    assert "transfer-beta  beta      no    1 of 2      beta gets no jobs\n" in out
    assert out.endswith("beta to answer; the job counts as alive\n")


@pytest.mark.parametrize(
    ("words", "jobs", "clusters"),
    [
        ((), ["12", "13.2"], ["alpha", "beta"]),
        (("-u", "bob"), ["13.2"], ["alpha", "beta"]),
        (("-u", "a*"), ["12"], ["alpha", "beta"]),
        (("--cluster", "beta"), ["12", "13.2"], ["beta"]),
        (("--cluster", "alpha"), [], ["alpha"]),
    ],
)
def test_status_of_a_user_and_a_cluster(
    tmp_path: Path, words: tuple[str, ...], jobs: list[str], clusters: list[str]
) -> None:
    folder = publish(tmp_path, shown(transfer(), replace(WAITING, owner="bob")))

    report = json.loads(run("status", "--json", "--published", folder, *words).stdout)

    assert [row["job"] for row in report["transfers"]] == jobs
    assert [row["cluster"] for row in report["clusters"]] == clusters


def test_status_of_an_unknown_cluster_names_the_known_clusters(tmp_path: Path) -> None:
    done = run("status", "--cluster", "gamma", "--published", publish(tmp_path, shown()))

    assert (done.exit_code, str(done.exception)) == (1, "no cluster 'gamma'; known: alpha, beta")


def test_the_exit_code_of_status_tells_of_a_warning(tmp_path: Path) -> None:
    folder = publish(tmp_path, shown())  # the load values are old

    assert run("status", "--published", folder).exit_code == 0
    assert run("status", "--published", folder, "--exit-code").exit_code == 1
    assert run("status", "--published", folder, "--exit-code", "--watch").exit_code == 1


def test_a_watched_report_outlives_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[str | StateError] = ["first", StateError("no folder"), "last"]
    times = [ago(9), ago(4), NOW]

    def read(_: datetime) -> str:
        answer = answers.pop(0)
        if isinstance(answer, StateError):
            raise answer
        return answer

    watch_report(
        read, lambda text, _: print_line(text), lambda text: text == "last", lambda: times.pop(0), lambda: None
    )

    assert capsys.readouterr().out == (
        "2026-03-01 11:59:51\nfirst\n\n"
        "2026-03-01 11:59:56  no folder; the report below is 5 s old\nfirst\n\n"
        "2026-03-01 12:00:00\nlast\n\n"
    )


def test_a_terminal_shows_a_watched_report_in_place_and_only_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "5")
    with redirect_stdout(TerminalText()) as text:
        print_in_place("now", lambda: [print_line(str(n)) for n in range(5)])

    lines = [line.removesuffix("\033[K") for line in text.getvalue().splitlines()]
    assert lines == ["\033[Hnow", "", "0", "and 4 more lines; gridbridge top can scroll", "\033[J"]


def test_why_prints_a_paragraph_and_the_history_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = history(transfer(), "being submitted to beta", "submitted to beta as 34, held")
    folder = publish(tmp_path, shown(transfer()), task)

    why_command.print_task_attempts(*explain_transfers_of_local_job("12", NOW, folder), NOW)

    assert capsys.readouterr().out == (
        "job 12 of alice is at beta as job 34\n"
        "  here       r in transfer-beta for 5 min\n"
        "  there      r on beta-n1 for 3 min\n"
        "  waits for  its end\n"
        "\n"
        "  11:55:00   being submitted to beta\n"
        "  11:55:10   submitted to beta as 34, held\n"
    )


def test_json_output_has_the_content_of_the_tables(tmp_path: Path) -> None:
    folder = publish(tmp_path, shown(transfer()), history(transfer(), "being submitted"))

    status = json.loads(run("status", "--json", "--published", folder).stdout)
    why = json.loads(run("why", "12", "--json", "--published", folder).stdout)

    assert list(status) == ["alarm", "clusters", "queues", "transfers", "drained", "late"]
    assert status["alarm"].startswith("gridbridge-poller is silent")  # NOW is long ago
    assert status["transfers"][0]["transfer"]["remote_id"] == 34
    assert list(why) == ["alarm", "tasks"]
    (attempt,) = why["tasks"][0]["attempts"]
    assert attempt["events"] == [{"at": "2026-03-01T11:55:00+00:00", "text": "being submitted"}]
    assert attempt["transfer"]["transfer"] == "gb.alpha.12.0.1"


def test_why_of_an_unknown_job_prints_one_line_and_returns_1(tmp_path: Path) -> None:
    done = run("why", "99", "--published", publish(tmp_path, shown()))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("gridbridge: job 99: no transfer in the last 24 h")
    assert done.stderr.count("\n") == 1


def test_why_of_a_returned_job_shows_the_home_job_before_its_ended_transfer(tmp_path: Path) -> None:
    ended = transfer(transfer=f"gb.alpha.{NUMBER}.0.1", closed_at=ago(60), reason="comes home")
    folder = publish(tmp_path / "published", shown(), history(ended, "comes home"))
    config = site(tmp_path)

    done = run("why", str(NUMBER), "--published", folder, "--config", config)
    known = run("why", str(NUMBER), "--json", "--published", folder, "--config", config).stdout

    heads = [line for line in done.stdout.splitlines() if line.startswith("job ")]
    assert heads == [
        f"job {NUMBER} of alice is at home now",
        f"job {NUMBER} of alice was sent to beta as job 34; the transfer has ended",
    ]
    assert "(qw)" in done.stdout
    assert (json.loads(known)["home"]["was_sent"], done.exit_code) == (True, 0)


def test_why_reports_a_silent_qmaster_instead_of_an_unknown_job(tmp_path: Path) -> None:
    """For a known transfer or campaign, one more line reports the silent qmaster."""
    config = site(tmp_path)
    (tmp_path / "qstat").write_text("#!/bin/sh\necho error: no route >&2\nexit 1\n")
    ended = transfer(transfer=f"gb.alpha.{NUMBER}.0.1", closed_at=ago(60))
    folder = publish(tmp_path / "published", shown(), history(ended, "ended"))

    options = ("--published", folder, "--config", config)
    unknown, known = run("why", "99", *options), run("why", str(NUMBER), *options)

    trouble = "alpha: no answer: qstat: error: no route\n"
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert unknown.stderr.endswith(f"; {trouble}")
    assert (known.exit_code, known.stderr) == (0, f"gridbridge: job {NUMBER}: {trouble}")


def test_a_time_outside_the_last_day_is_printed_with_its_date() -> None:
    assert format_local_time(ago(86399), NOW) == "12:00:01"
    assert format_local_time(ago(86400), NOW) == "2026-02-28 12:00:00"
    assert format_local_time(ago(-1), NOW) == "2026-03-01 12:00:01"
    assert format_local_time(None, NOW) == "-"
