"""Hides people's words and secrets in texts of a support report: only words that gridbridge itself uses stay readable.

A list of secrets to hide would always lack one. A list of words to show hides what nobody has thought of.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

HIDDEN = "***"
_CHUNK = re.compile(r"[^\s=\"',;:()\[\]{}<>|`]+")
_NUMBER = re.compile(r"\d{1,10}(T\d\d|Z|[munµ]?s|min|h|d|[kKMGT]?i?B|[KMGkmg])?")
_PART = re.compile(r"[^\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e]+")  # between two of ASCII's punctuation marks
_ACCOUNT = re.compile(r"\b(owner|user|account|by)=[^\s,;]+")
_WORD = re.compile("[A-Za-z]+")


def words_of_texts(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for text in texts for word in _WORD.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableWords:
    """What a report may show, and what stays hidden even if it is readable."""

    words: frozenset[str]  # gridbridge's own, in small letters
    names: frozenset[str]  # of clusters, queues and hosts
    accounts: frozenset[str] = frozenset()  # never shown
    phrases: tuple[str, ...] = ()  # never shown: people wrote them, perhaps in words of gridbridge

    def is_readable(self, chunk: str) -> bool:
        """Say whether a chunk, such as a path or a number with its unit, is readable in all its parts."""
        parts = _PART.findall(chunk)
        if chunk in self.accounts or not self.accounts.isdisjoint(parts):
            return False
        return chunk in self.names or all(
            part.lower() in self.words or part in self.names or _NUMBER.fullmatch(part) for part in parts
        )


def redact_text(text: str, readable: ReadableWords) -> str:
    """Return a text in which each chunk is hidden that is neither readable nor a number."""
    for phrase in sorted(filter(None, readable.phrases), key=len, reverse=True):
        text = text.replace(phrase, HIDDEN)
    text = _ACCOUNT.sub(rf"\1={HIDDEN}", text)
    return _CHUNK.sub(lambda chunk: chunk[0] if readable.is_readable(chunk[0]) else HIDDEN, text)
