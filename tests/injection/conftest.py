"""The task that the tests of hot programs have."""

from tests.methods.conftest import place as place
