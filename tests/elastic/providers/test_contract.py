"""What a balancer relies on, whoever makes the machines."""

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
    listed = site.provider.machines()
    there = (one for one in listed if one.state is not ProviderMachineState.GONE)
    return {one.name: one for one in there if one.belongs_to("alpha")}


def test_a_machine_that_was_made_is_listed_with_its_name_and_tags(site: Site) -> None:
    made = site.provider.create("alpha-n7", TAGS)

    (listed,) = ours(site).values()
    assert (made.id, "alpha-n7", "small") == (listed.id, listed.name, listed.pool)
    assert TAGS.items() <= listed.tags.items()
    assert listed.state in (ProviderMachineState.PENDING, ProviderMachineState.RUNNING)


def test_several_machines_have_ids_of_their_own(site: Site) -> None:
    made = [site.provider.create(f"alpha-n{number}", TAGS) for number in range(3)]

    assert {one.name: one.id for one in made} == {one.name: one.id for one in ours(site).values()}
    assert 3 == len({one.id for one in made})


def test_a_machine_that_was_removed_is_gone_and_may_be_removed_again(site: Site) -> None:
    made, kept = (site.provider.create(name, TAGS) for name in ("alpha-n1", "alpha-n2"))

    site.provider.destroy(made)
    site.provider.destroy(made)

    assert [kept.id] == [one.id for one in ours(site).values()]


def test_a_name_may_be_used_again_for_another_machine(site: Site) -> None:
    first = site.provider.create("alpha-n1", TAGS)
    site.provider.destroy(first)

    second = site.provider.create("alpha-n1", TAGS)

    assert [second.id] == [one.id for one in ours(site).values()]
    assert first.id != second.id


def test_machines_of_another_cluster_are_not_ours(site: Site) -> None:
    site.provider.create("alpha-n1", {**TAGS, OWNER_TAG: "omega"})

    assert {} == ours(site)


def test_no_capacity_is_told_as_such_and_nothing_is_made(site: Site) -> None:
    site.be_full()

    with pytest.raises(ProviderOutOfMachines):
        site.provider.create("alpha-n1", TAGS)
    assert {} == ours(site)


def test_a_provider_that_is_busy_is_asked_again_later(site: Site) -> None:
    site.be_busy()

    with pytest.raises(ProviderOutcomeUnknown):
        site.provider.create("alpha-n1", TAGS)
    with pytest.raises(ProviderOutcomeUnknown):
        site.provider.machines()
