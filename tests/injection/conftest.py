"""The task that the tests of hot programs have."""

from tests.transfer.starter.conftest import place as place
