"""Deletion of the waiting tasks of an array, and the report of running tasks."""

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.privileged import as_user_array_arguments, campaign_owner_cluster_calls
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.campaign_owner_cluster_calls import CampaignOwnerClusterCalls

NAME = "gc.alpha.12.3"
CONFIG: dict[str, dict[str, object]] = {"site": {"cluster": "alpha"}, "cluster": {"beta": {"qmaster_port": 1}}}


class Cell:
    def __init__(self, *waiting: range, owner: str = "alice") -> None:
        self._waiting = waiting
        self._owner = owner
        self.deleted = ""
        self.released: tuple[range, ...] = ()

    def query_owner_and_account(self, _: object, __: str) -> tuple[str, str]:
        """Return the owner of the array, or nobody if the array has ended."""
        return self._owner, NAME if self._owner else ""

    def hold_array_tasks(self, *_: object) -> tuple[range, ...]:
        return self._waiting

    def delete_array_tasks(self, _: object, __: str, ___: str, places: str) -> None:
        self.deleted = places

    def release_array_tasks(self, _: object, __: str, places: tuple[range, ...]) -> None:
        self.released = places


def act(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(
        as_user_array_arguments.as_user_refusals_and_user_switch, "read_root_configuration", lambda _: CONFIG
    )
    monkeypatch.setattr(campaign_owner_cluster_calls, "load_campaign_array_adapter", lambda _: cell)
    asked = AsUserArrayArguments(["delete-waiting", "c.12", "beta", "3", "1-5"])
    return CampaignOwnerClusterCalls(asked, "alice").release_or_delete_array(NAME, "7", is_repeated=False)


def test_tasks_that_cannot_be_held_keep_running_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(range(1, 3), range(5, 6))

    assert act(cell, monkeypatch) == "3-4"
    assert (cell.deleted, cell.released) == ("1-2,5", (range(3, 5),))


def test_deleting_from_an_ended_array_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(owner="")

    with pytest.raises(GridbridgeError, match="does not exist any more"):
        act(cell, monkeypatch)
    assert cell.deleted == ""
