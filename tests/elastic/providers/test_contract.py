"""The contract that every provider of machines must fulfil."""

import pytest

from gridbridge.errors import ProviderOutcomeUnknown, ProviderOutOfMachines
from gridbridge.model.elastic.elastic_nodes import OWNER_TAG, POOL_TAG, ProviderMachine, ProviderMachineState
from tests.elastic.providers.sites import KINDS, Site

TAGS = {OWNER_TAG: "alpha", POOL_TAG: "small"}


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest) -> Site:
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Site)
    return made


def ours(site: Site) -> dict[str, ProviderMachine]:
    listed = site.provider.list_machines()
    there = (one for one in listed if one.state is not ProviderMachineState.GONE)
    return {one.name: one for one in there if one.has_owner_tag_of_cluster("alpha")}


def test_a_created_machine_is_listed_with_name_and_tags(site: Site) -> None:
    made = site.provider.create_machine("alpha-n7", TAGS)

    (listed,) = ours(site).values()
    assert (made.id, "alpha-n7", "small") == (listed.id, listed.name, listed.pool)
    assert TAGS.items() <= listed.tags.items()
    assert listed.state in (ProviderMachineState.PENDING, ProviderMachineState.RUNNING)


def test_machines_have_different_ids(site: Site) -> None:
    made = [site.provider.create_machine(f"alpha-n{number}", TAGS) for number in range(3)]

    assert {one.name: one.id for one in made} == {one.name: one.id for one in ours(site).values()}
    assert 3 == len({one.id for one in made})


def test_a_destroyed_machine_is_not_listed_and_may_be_destroyed_again(site: Site) -> None:
    made, kept = (site.provider.create_machine(name, TAGS) for name in ("alpha-n1", "alpha-n2"))

    site.provider.destroy_machine(made)
    site.provider.destroy_machine(made)

    assert [kept.id] == [one.id for one in ours(site).values()]


def test_the_name_of_a_destroyed_machine_can_be_reused(site: Site) -> None:
    first = site.provider.create_machine("alpha-n1", TAGS)
    site.provider.destroy_machine(first)

    second = site.provider.create_machine("alpha-n1", TAGS)

    assert [second.id] == [one.id for one in ours(site).values()]
    assert first.id != second.id


def test_a_machine_tagged_for_another_cluster_is_not_an_own_machine(site: Site) -> None:
    site.provider.create_machine("alpha-n1", {**TAGS, OWNER_TAG: "omega"})

    assert {} == ours(site)


def test_a_lack_of_capacity_is_reported_and_no_machine_is_created(site: Site) -> None:
    site.be_full()

    with pytest.raises(ProviderOutOfMachines):
        site.provider.create_machine("alpha-n1", TAGS)
    assert {} == ours(site)


def test_a_busy_provider_is_a_repeatable_failure(site: Site) -> None:
    site.be_busy()

    with pytest.raises(ProviderOutcomeUnknown):
        site.provider.create_machine("alpha-n1", TAGS)
    with pytest.raises(ProviderOutcomeUnknown):
        site.provider.list_machines()
