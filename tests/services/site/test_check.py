"""What check shows of what it found."""

from gridbridge.model.site.setup import Finding, State
from gridbridge.services.site.check import _item


def test_what_people_wrote_steers_no_terminal_of_root() -> None:
    """A ProxyCommand's words come to standard error of ssh, and from there into the table."""
    words = "\x1b]0;mine\x07\x1b[2Jall is well\nok"
    item = _item(Finding(item="key", state=State.WARNING, found=words, hint=words), None)

    assert (item.found.isprintable(), item.hint.isprintable()) == (True, True)
    assert "all is well" in item.found
