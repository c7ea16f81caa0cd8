"""The names in a folder that anybody may fill, some at a time.

To look at very many names at once would keep the round waiting, and with it all transfers.
"""

import os
from collections.abc import Iterator
from itertools import islice

MOST = 5000  # names in a portion: to remove as many takes a tenth of a second


class Portions:
    """A pass over a folder, which goes on at each call."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: Iterator[os.DirEntry[str]] | None = None

    @property
    def is_amid(self) -> bool:
        """Whether a pass has begun, and names are left."""
        return self._entries is not None

    def take(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the next names; after the last ones a new pass begins. Raises OSError."""
        entries, self._entries = self._entries or os.scandir(folder), None
        some = list(islice(entries, self._most))
        if len(some) == self._most:
            self._entries = entries
        return some
