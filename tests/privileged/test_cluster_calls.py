"""Deletion of the waiting tasks of an array, and the report of running tasks."""

from unittest.mock import Mock

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.privileged import as_user_array_arguments, campaign_owner_cluster_calls
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.campaign_owner_cluster_calls import CampaignOwnerClusterCalls

NAME = "gc.alpha.12.3"
CONFIG: dict[str, dict[str, object]] = {"site": {"cluster": "alpha"}, "cluster": {"beta": {"qmaster_port": 1}}}


@pytest.fixture(name="cell")
def _cell(monkeypatch: pytest.MonkeyPatch) -> Mock:
    monkeypatch.setattr(
        as_user_array_arguments.as_user_refusals_and_user_switch, "read_root_configuration", lambda _: CONFIG
    )
    cell = Mock()
    monkeypatch.setattr(campaign_owner_cluster_calls, "load_campaign_array_adapter", lambda _: cell)
    return cell


def delete_waiting() -> str:
    asked = AsUserArrayArguments(["delete-waiting", "c.12", "beta", "3", "1-5"])
    return CampaignOwnerClusterCalls(asked, "alice").release_or_delete_array(NAME, "7", is_repeated=False)


def test_tasks_that_cannot_be_held_keep_running_and_are_reported(cell: Mock) -> None:
    cell.query_owner_and_account.return_value = ("alice", NAME)
    cell.hold_array_tasks.return_value = (range(1, 3), range(5, 6))

    assert delete_waiting() == "3-4"
    assert cell.delete_array_tasks.call_args.args[-1] == "1-2,5"
    assert cell.release_array_tasks.call_args.args[-1] == (range(3, 5),)


def test_deleting_from_an_ended_array_is_an_error(cell: Mock) -> None:
    cell.query_owner_and_account.return_value = ("", "")

    with pytest.raises(GridbridgeError, match="does not exist any more"):
        delete_waiting()
    cell.delete_array_tasks.assert_not_called()
