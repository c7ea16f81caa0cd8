"""A support report tells of the site without secrets and people's words, wherever these are planted."""

import io
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.site.support_report import LOG_BYTES, ReportedPlaces, pack_support_report, support_report_files
from gridbridge.state import drains
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns
from tests.shown import NOW, publish, shown, transfer
from tests.state_files import made_transfer

SECRET = "xyzzy"
REASON = "the state file was lost"  # in words of gridbridge
TOML = f"""# {SECRET}
[site]
cluster = "alpha"
state = "sqlite:///{{}}"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
[provider.cloud]
kind = "ec2"
region = "{SECRET}"
[cluster.beta]
api = "https://{SECRET}:{SECRET}@beta/"
"""
LOG = f"""{SECRET}
2026-03-01T12:00:00Z level=INFO event=submitted name=gb.alpha.12.0.1 owner=alice cluster=beta command="{SECRET} alice"
2026-03-01T12:00:01Z level=ERROR event=failed error="ssh: Permission denied" TOKEN={SECRET} dir=/home/{SECRET}/status
2026-03-01T12:00:02Z level=INFO event=drained reason="{REASON}"
"""


@pytest.fixture
def places(tmp_path: Path) -> ReportedPlaces:
    state = tmp_path / "state.db"
    database = StateFile.open(f"sqlite:///{state}")
    TransferRows(database).insert_or_update_transfer(made_transfer(record=f"/{SECRET}"))
    database.close()
    published = tmp_path / "published"
    published.mkdir()
    publish(published, shown(transfer(reason=SECRET)))
    drains.make_cluster_drains_folder(str(published))
    drains.drain_cluster("beta", PublishedClusterDrain(by=SECRET, at=NOW, reason=REASON), str(published))
    publish_campaigns(published, make_shown_campaign(name=SECRET))
    for folder, name in (("logs", "poller.log"), ("spool", SECRET), ("logs", "jobs.txt")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(LOG)
    (tmp_path / "gridbridge.toml").write_text(TOML.format(state))
    return ReportedPlaces(
        configuration=str(tmp_path / "gridbridge.toml"),
        published=str(published),
        log_folders=(str(tmp_path / "logs"),),
        counted_folders=(str(tmp_path / "spool"),),
        balancer_state=str(tmp_path / "none.db"),
    )


def packed_texts(files: dict[str, str]) -> dict[str, str]:
    with tarfile.open(
        fileobj=io.BytesIO(pack_support_report(files, "report", datetime(2026, 3, 1, tzinfo=UTC)))
    ) as archive:
        texts = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        return {name: file.read().decode() for name, file in texts.items() if file}


def test_no_planted_word_is_in_the_report(places: ReportedPlaces) -> None:
    texts = packed_texts(support_report_files(places, [f"broken: job 7: {SECRET} of alice; {REASON}"]))

    everything = "".join(f"{name}\n{text}" for name, text in texts.items())
    assert [word for word in (SECRET, "alice", REASON) if word in everything] == []


def test_the_report_shows_what_explains_a_fault(places: ReportedPlaces) -> None:
    texts = packed_texts(support_report_files(places, ["broken: poller: no process; right: running"]))

    assert set(texts) - {"report/logs/journal"} == {
        f"report/{name}"
        for name in ("versions.json", "configuration.toml", "check.txt", "counts.json", "logs/poller.log")
    }
    assert "event=submitted name=gb.alpha.12.0.1 owner=*** cluster=beta command=" in texts["report/logs/poller.log"]
    assert 'error="ssh: Permission denied"' in texts["report/logs/poller.log"]
    assert "broken: poller: no process; right: running\n" in texts["report/check.txt"]
    assert "[cluster.beta] api = " in texts["report/check.txt"]  # the mistake, without its value
    counts = json.loads(texts["report/counts.json"])
    assert counts["transfers by phase"] == {"released": 1}
    assert counts["drained clusters"] == 1
    assert list(counts["files"].values()) == [1]


def test_rows_are_counted_by_table(places: ReportedPlaces) -> None:
    path = Path(places.configuration)
    path.write_text(path.read_text().partition("[provider")[0])

    counts = json.loads(support_report_files(places, [])["counts.json"])

    assert counts["rows of the service"]["transfers"] == 1


def test_only_the_end_of_a_long_log_is_packed_and_no_link_is_followed(places: ReportedPlaces, tmp_path: Path) -> None:
    logs = Path(places.log_folders[0])
    logs.joinpath("poller.log").write_text("event=first\n" + "event=failed\n" * (LOG_BYTES // 10))
    tmp_path.joinpath("shadow").write_text("event=first\n")
    os.symlink(tmp_path / "shadow", logs / "link.log")

    files = support_report_files(places, [])

    assert "event=first" not in files["logs/poller.log"] + files["logs/link.log"]
    assert files["logs/poller.log"].startswith("event=failed\n")
