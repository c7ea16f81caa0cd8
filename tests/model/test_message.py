"""Spool messages and published texts survive encoding and decoding; malformed ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.names_offered_by_cluster import (
    ANY,
    NO_RULE,
    NamesOfferedByCluster,
    decode_offered_names,
    encode_offered_names,
)
from gridbridge.model.transfer_messages_in_spool import (
    MAX_BYTES,
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
    encode_transfer_message,
)

# What os.environ and decoded file names hold: any text, bytes that are not UTF-8 as surrogates.
ANY_TEXT = st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(ANY_TEXT, ANY_TEXT)
def test_a_spool_message_survives_encoding_and_decoding(reason: str, host: str) -> None:
    message = TransferMessage(kind=TransferMessageKind.ENDED, reason=reason, host=host)

    assert decode_transfer_message(encode_transfer_message(message)) == message


def test_a_spool_message_consists_of_lines_that_sh_can_write() -> None:
    message = TransferMessage(kind=TransferMessageKind.ENDED, transfer="gb.alpha.1.0.1", reason="50% of\nit")

    assert encode_transfer_message(message) == b"kind=ended\ntransfer=gb.alpha.1.0.1\nreason=50%25 of%0Ait\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"kind=record",
        b"kind\n",
        b"colour=red\n",
        b"kind=record\nkind=ended\n",
        b"reason=%zz\n",
        b"reason=%\n",
        b"reason=" + b"x" * MAX_BYTES + b"\n",
    ],
    ids=["empty", "cut", "no value", "unknown key", "twice", "not hex", "bare %", "too long"],
)
def test_a_malformed_spool_message_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_transfer_message(data)


WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)


@given(st.fixed_dictionaries({kind: st.frozensets(WORD) for kind in NamesOfferedByCluster.KINDS}))
def test_a_vocabulary_survives_encoding_and_decoding(names: dict[str, frozenset[str]]) -> None:
    assert decode_offered_names(encode_offered_names(NamesOfferedByCluster(**names))) == NamesOfferedByCluster(**names)


@pytest.mark.parametrize("data", [b"colour=red\n", b"pe=smp", b"pe\n", b"pe=a\npe=b\n"])
def test_a_malformed_vocabulary_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_offered_names(data)


@pytest.mark.parametrize(
    ("rules", "nodes", "each", "expected"),
    [
        ({"smp=$pe_slots", "mpi=$round_robin"}, 1, 2, "smp"),
        ({"a=2", "z=$pe_slots"}, 1, 2, "z"),
        ({"b=$pe_slots", "a=$pe_slots"}, 1, 4, "a"),
        ({"pairs=2", "mpi=$fill_up"}, 1, 2, "pairs"),
        ({"pairs=2", "mpi=$fill_up"}, 3, 2, "pairs"),
        ({"smp=$pe_slots", "mpi=$fill_up"}, 3, 2, ""),
        ({"mpi=$fill_up"}, 1, 2, ""),
        ({NO_RULE}, 1, 2, ""),
        (set(), 1, 2, ANY),
        ({"mpi=$fill_up"}, 0, 8, ANY),
        ({"mpi=$fill_up"}, 1, 1, ANY),
        ({ANY}, 2, 4, ANY),
    ],
)
def test_a_parallel_environment_is_chosen_by_its_allocation_rule(
    rules: set[str], nodes: int, each: int, expected: str
) -> None:
    assert NamesOfferedByCluster(rule=frozenset(rules)).find_parallel_environment(nodes, each) == expected


def test_a_vocabulary_of_an_earlier_version_has_no_rules() -> None:
    assert decode_offered_names(b"pe=smp\n").find_parallel_environment(1, 4) == ANY
    none = NamesOfferedByCluster(rule=frozenset({NO_RULE}))
    assert decode_offered_names(encode_offered_names(none)).find_parallel_environment(1, 4) == ""


USERS = AccountByUser(alice="al", bob="carol")


@pytest.mark.parametrize(
    ("account", "person"),
    [("al", "alice"), ("carol", "bob"), ("dave", "dave"), ("alice", "alice@far"), ("bob", "bob@far")],
)
def test_a_remote_account_belongs_to_its_mapped_or_equally_named_person(account: str, person: str) -> None:
    """An account with the name of a person who is mapped to another account belongs to nobody."""
    assert USERS.user_of_remote_account(account, "far") == person


@pytest.mark.parametrize("person", ["alice", "bob", "dave"])
def test_the_account_of_a_person_leads_back_to_the_person(person: str) -> None:
    assert USERS.user_of_remote_account(USERS.remote_account_of_user(person), "far") == person
