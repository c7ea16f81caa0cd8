"""Root retries tasks only by a request file of the campaign's owner."""

import json
import os
from pathlib import Path

import pytest

from gridbridge.privileged import earlier_attempts_ended_check
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.earlier_attempts_ended_check import require_owner_retry_request

ASKS = {"verb": "resubmit", "campaigns": [7], "of": [12]}
UID = os.getuid()


@pytest.fixture(name="spool")
def _spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(earlier_attempts_ended_check, "CAMPAIGNS", str(tmp_path))
    monkeypatch.setattr(earlier_attempts_ended_check, "ROOT", -1)
    (tmp_path / "begun").mkdir()
    return tmp_path / "begun"


def test_a_retry_request_of_the_owner_is_accepted(spool: Path) -> None:
    (spool / "took.abc").write_text(json.dumps(ASKS))

    first = require_owner_retry_request("abc", 12, UID)
    (spool / "took.abc").rename(spool / "took.def")
    renamed = require_owner_retry_request("def", 12, UID)
    (spool / "took.abc").write_text(json.dumps(ASKS))

    assert first == renamed
    assert first != require_owner_retry_request("abc", 12, UID)


@pytest.mark.parametrize(
    ("text", "campaign", "uid"),
    [
        (json.dumps(ASKS), 13, UID),
        (json.dumps(ASKS), 12, UID + 1),
        (json.dumps({**ASKS, "verb": "fix"}), 12, UID),
        (json.dumps({**ASKS, "of": 12}), 12, UID),
        ('{"verb": "resubmit", "campaigns": [12]}', 12, UID),
        (json.dumps([ASKS]), 12, UID),
        ('"resubmit"', 12, UID),
        ("[" * 60_000, 12, UID),
    ],
    ids=["another's", "another person", "another verb", "no list", "older", "list", "text", "deep"],
)
def test_a_retry_request_with_another_content_is_refused(spool: Path, text: str, campaign: int, uid: int) -> None:
    (spool / "took.abc").write_text(text)

    with pytest.raises(AsUserRequestRefusal):
        require_owner_retry_request("abc", campaign, uid)


@pytest.mark.parametrize("token", ["", "../took.abc", "abc/..", "nosuch", "a b"])
def test_a_token_that_names_another_file_is_refused(spool: Path, token: str) -> None:
    (spool / "took.abc").write_text(json.dumps(ASKS))

    with pytest.raises(AsUserRequestRefusal):
        require_owner_retry_request(token, 12, UID)


def test_a_linked_retry_request_is_refused(spool: Path) -> None:
    """The service could make a link to a file that the owner wrote for another purpose."""
    (spool / "of_the_owner").write_text(json.dumps(ASKS))
    os.link(spool / "of_the_owner", spool / "took.abc")
    os.symlink(spool / "of_the_owner", spool / "took.def")

    for token in ("abc", "def"):
        with pytest.raises(AsUserRequestRefusal):
            require_owner_retry_request(token, 12, UID)
