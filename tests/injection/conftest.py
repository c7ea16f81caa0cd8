"""Make the fixture `task` available, the task of the hot programs' tests."""

from tests.transfer.starter.conftest import place as place
