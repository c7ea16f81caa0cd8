"""What describes a key of gridbridge.toml: its meaning, unit, limits and form."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import TypeVar

from gridbridge.model.ids import is_cluster_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """What a text has to look like."""

    holds: Callable[[str], object]  # true or false
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeySetting:
    """What is known of a key besides its type and default; numbers have both limits."""

    meaning: str
    unit: str
    low: float
    high: float
    form: TextFormat
    inherits: str


ANY_TEXT = TextFormat(holds=re.compile("[ -~]*").fullmatch, right="printable ASCII")
CLUSTER_NAME = TextFormat(
    holds=is_cluster_name, right="lower-case letters, digits and -, a letter first, at most 32"
)
ACCOUNT = TextFormat(
    holds=re.compile("(?!root$)[a-z_][a-z0-9_-]{0,31}").fullmatch,
    right="the name of an account that is not root",
)
OBJECT_NAME = TextFormat(  # stricter than sge_types(1), object_name: no wildcards, nothing sh knows
    holds=re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,511}").fullmatch,
    right="letters, digits, _ . + and -, a letter or digit first",
)
ABSOLUTE_PATH = TextFormat(
    holds=re.compile("/[ -~]*").fullmatch, right="an absolute path in printable ASCII"
)
PATH_OR_NONE = TextFormat(
    holds=re.compile("(/[ -~]*)?").fullmatch,
    right="an absolute path in printable ASCII, empty where it is not visible",
)
LOGIN_NAME = TextFormat(
    holds=re.compile("(?!root$)[A-Za-z_][A-Za-z0-9_.-]{0,63}").fullmatch,
    right='names of accounts but root, no account twice: { alice = "al_there" }',
)
ASKED = TextFormat(
    holds=re.compile(r"[!-+\x2d-~]+").fullmatch,
    right='resources by their names at home: { mem_free = "64G" }',
)
SSH_PLACE = TextFormat(
    holds=re.compile("([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)?").fullmatch,
    right="HOST or HOST:PORT, empty where the programs run here",
)
FAR_FOLDER = TextFormat(
    holds=re.compile(r"(?!-)(?!(?:.*/)?\.\.(?:/|$))[!-~]{1,200}(?<!/)").fullmatch,
    right="a path in printable ASCII without blanks and .., absolute or below the account's home",
)
OAR_QUEUE = TextFormat(
    holds=lambda text: not text or OBJECT_NAME.holds(text),
    right=f"{OBJECT_NAME.right}; empty for OAR's own default",
)
OAR_TYPES = (
    TextFormat(  # OAR would run an idempotent job again, as the service does, under another id
        holds=re.compile(r"((?!idempotent\b)[a-z_]+(=[\w*,-]+)?( (?!$)|$))*", re.ASCII).fullmatch,
        right="besteffort and other types with blanks between them, but not idempotent",
    )
)
STATE_URL = TextFormat(  # everybody may read the file, so no password is in it
    holds=re.compile("sqlite:////[ -~]+|postgresql://(?!.*:.*@)(?!.*password=)[ -~]+").fullmatch,
    right="sqlite:////PATH, or postgresql://USER@HOST/NAME with the password in ~/.pgpass",
)


def config_key(
    default: T,
    meaning: str,
    unit: str = "",
    low: float = 0,
    high: float = 0,
    *,
    form: TextFormat = ANY_TEXT,
    inherits: str = "",
) -> T:
    """Make a key with its default; `inherits` says where an empty one takes its value from."""
    about = config_key_metadata(meaning, unit, low, high, form=form, inherits=inherits)
    if isinstance(default, dict):
        return field(default_factory=type(default), metadata=about)
    return field(default=default, metadata=about)


def config_key_metadata(
    meaning: str,
    unit: str = "",
    low: float = 0,
    high: float = 0,
    *,
    form: TextFormat = ANY_TEXT,
    inherits: str = "",
) -> Mapping[str, ConfigKeySetting]:
    """Make the metadata of a key; a key without a default has only that."""
    about = ConfigKeySetting(
        meaning=meaning, unit=unit, low=low, high=high, form=form, inherits=inherits
    )
    return {"setting": about}


def setting_of_key(key: "Field[object]") -> ConfigKeySetting:
    """Return what is known of a key."""
    about = key.metadata["setting"]
    assert isinstance(about, ConfigKeySetting)
    return about


class RemoteAccountNames(dict[str, str]):
    """Which person has which account there, for people who have another name there."""

    def account_of(self, person: str) -> str:
        """Return a person's account there: the one of the same name, unless another is listed."""
        return self.get(person, person)

    def person_of(self, account: str, cluster: str) -> str:
        """Return the person whose account it is, or ACCOUNT@CLUSTER if it is nobody's here."""
        for person, theirs in self.items():
            if theirs == account:
                return person
        return f"{account}@{cluster}" if account in self else account


class QueueDefaults(dict[str, str]):
    """What a queue's jobs ask for unless they do so themselves, by the resource's name at home."""
