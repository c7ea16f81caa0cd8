"""Descriptions of the keys of gridbridge.toml: default, meaning, unit, limits and form of the value."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import TypeVar

from gridbridge.model.transfer_name import is_valid_cluster_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTextFormat:
    """The form that a text value must have: a check, and a description for users."""

    holds: Callable[[str], object]  # returns a true value for a valid text
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeyDescription:
    meaning: str
    unit: str
    low: float
    high: float
    form: ConfigTextFormat
    inherits: str


ANY_TEXT = ConfigTextFormat(holds=re.compile("[ -~]*").fullmatch, right="printable ASCII")
CLUSTER_NAME = ConfigTextFormat(
    holds=is_valid_cluster_name, right="at most 32 lower-case letters, digits and -, a letter first"
)
ACCOUNT = ConfigTextFormat(
    holds=re.compile("(?!root$)[a-z_][a-z0-9_-]{0,31}").fullmatch, right="the name of an account other than root"
)
OBJECT_NAME = ConfigTextFormat(  # stricter than object_name of sge_types(1): no wildcards and no syntax of sh
    holds=re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,511}").fullmatch,
    right="letters, digits, _ . + and -, a letter or digit first",
)
ABSOLUTE_PATH = ConfigTextFormat(holds=re.compile("/[ -~]*").fullmatch, right="an absolute path in printable ASCII")
OBJECT_PREFIX = ConfigTextFormat(
    holds=re.compile("(?!-)[!-~]*").fullmatch, right="printable ASCII without blanks, no - first; or empty"
)
PATHS_AT_CLUSTERS = ConfigTextFormat(
    holds=ABSOLUTE_PATH.holds, right='clusters with the path at each, such as { alpha = "/data", beta = "/mnt/data" }'
)
PATH_OR_NONE = ConfigTextFormat(
    holds=re.compile("(/[ -~]*)?").fullmatch,
    right="an absolute path in printable ASCII; empty if this host does not see the path",
)
PROGRAM_OR_NONE = ConfigTextFormat(
    holds=re.compile("(/[ -~]*)?").fullmatch, right="an absolute path in printable ASCII, or empty"
)
LOGIN_NAME = ConfigTextFormat(
    holds=re.compile("(?!root$)[A-Za-z_][A-Za-z0-9_.-]{0,63}").fullmatch,
    right='pairs of accounts such as { alice = "al_there" }; no root, and each account once',
)
ASKED = ConfigTextFormat(
    holds=re.compile(r"[!-+\x2d-~]+").fullmatch,
    right='resources with their names at home, such as { mem_free = "64G" }',
)
SSH_PLACE = ConfigTextFormat(
    holds=re.compile("([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)?").fullmatch,
    right="HOST or HOST:PORT; empty if the programs run on this host",
)
API_ADDRESS = ConfigTextFormat(
    holds=re.compile("(https?://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?)?").fullmatch,
    right="https://HOST[:PORT]/PATH, or http:// to this host; empty without a REST interface",
)
FAR_FOLDER = ConfigTextFormat(
    holds=re.compile(r"(?!-)(?!(?:.*/)?\.\.(?:/|$))[!-~]{1,200}(?<!/)").fullmatch,
    right="a path, absolute or below the account's home, in printable ASCII without blanks or ..",
)
OAR_QUEUE = ConfigTextFormat(
    holds=lambda text: not text or OBJECT_NAME.holds(text), right=f"{OBJECT_NAME.right}; empty: OAR's default"
)
OAR_TYPES = ConfigTextFormat(  # no `idempotent`: gridbridge reruns jobs itself, so OAR must not do so
    holds=re.compile(r"((?!idempotent\b)[a-z_]+(=[\w*,-]+)?( (?!$)|$))*", re.ASCII).fullmatch,
    right="OAR job types such as besteffort, with blanks between; not idempotent",
)
STATE_URL = ConfigTextFormat(  # without password, because all users may read gridbridge.toml
    holds=re.compile("sqlite:////[ -~]+|postgresql://(?!.*:.*@)(?!.*password=)[ -~]+").fullmatch,
    right="sqlite:////PATH, or postgresql://USER@HOST/NAME with the password in ~/.pgpass",
)


def setting(
    default: T,
    meaning: str,
    unit: str = "",
    low: float = 0,
    high: float = 0,
    *,
    form: ConfigTextFormat = ANY_TEXT,
    inherits: str = "",
) -> T:
    """Define a key of gridbridge.toml as a dataclass field; `inherits` says which value an empty key gets."""
    metadata = config_key_metadata(meaning, unit, low, high, form=form, inherits=inherits)
    if isinstance(default, dict):
        return field(default_factory=type(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def config_key_metadata(
    meaning: str,
    unit: str = "",
    low: float = 0,
    high: float = 0,
    *,
    form: ConfigTextFormat = ANY_TEXT,
    inherits: str = "",
) -> Mapping[str, ConfigKeyDescription]:
    description = ConfigKeyDescription(meaning=meaning, unit=unit, low=low, high=high, form=form, inherits=inherits)
    return {"setting": description}


def config_key_description(key: "Field[object]") -> ConfigKeyDescription:
    about = key.metadata["setting"]
    assert isinstance(about, ConfigKeyDescription)
    return about


class AccountByUser(dict[str, str]):
    """The remote account name of each user whose name differs at the remote cluster."""

    def remote_account_of_user(self, person: str) -> str:
        """Return a user's account name at the remote cluster, by default the user's name at home."""
        return self.get(person, person)

    def user_of_remote_account(self, account: str, cluster: str) -> str:
        """Return the user of a remote account; ACCOUNT@CLUSTER for an account without a user."""
        for person, theirs in self.items():
            if theirs == account:
                return person
        return f"{account}@{cluster}" if account in self else account


class PathByCluster(dict[str, str]):
    """The path of a shared filesystem at each cluster that mounts the filesystem."""


class QueueDefaultRequests(dict[str, str]):
    """A queue's default requests: the amount of each resource, by the resource's name at home."""
