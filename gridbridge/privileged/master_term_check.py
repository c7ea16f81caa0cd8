"""gridbridge-as-user lead PROGRAM TERM HOST: root's record of the leading master, beside root's ledger.

A master records its term before its first act. From then on root refuses calls with an earlier term, or without a term.
"""

from gridbridge.campaigns.store.leading_master_record import RECORD_BYTES, read_master_record, write_master_record
from gridbridge.campaigns.store.root_ledger import require_private_ledger_folder
from gridbridge.errors import MasterDeposed
from gridbridge.model.fixed_paths import LEDGER, MASTER_TERM
from gridbridge.privileged.as_user_array_arguments import is_short_ascii_number
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal

PROGRAMS = ("runner", "nikita")


class MasterTermCheck:
    """Checks that the caller's term is the recorded term; `word` is the caller's `term=PROGRAM.TERM`, or empty."""

    def __init__(self, word: str = "", folder: str = LEDGER) -> None:
        self._folder = folder
        self._program, _, term = word.removeprefix(MASTER_TERM).partition(".")
        if word and (self._program not in PROGRAMS or not is_short_ascii_number(term)):
            raise AsUserRequestRefusal(f"{word[:40]!r}: expected {MASTER_TERM}{'|'.join(PROGRAMS)}.NUMBER")
        self._term = int(term or 0)

    def require_current_term(self) -> None:
        """Raise MasterDeposed if another master has recorded a later term than the caller's."""
        recorded, host, _ = read_master_record(self._folder, self._program or PROGRAMS[0])
        if recorded == self._term:
            return
        caller = f"term {self._term} of {self._program}" if self._program else "a service without a term"
        raise MasterDeposed(f"{caller} may not act, because {host} leads, term {recorded}")


def record_or_show_master(arguments: list[str], folder: str = LEDGER) -> str:
    """Record a master's term and host, or nothing for term 0; return the record and its inode number.

    Raises MasterDeposed if a later term, or the same term of another host, is recorded.
    """
    _, program, term, host = [*arguments, "", "", ""][:4]
    is_valid = program in PROGRAMS and is_short_ascii_number(term) and host.isascii() and host.isprintable()
    if len(arguments) != 4 or not is_valid or not 0 < len(host) < RECORD_BYTES - 20 or " " in host:
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user lead {'|'.join(PROGRAMS)} TERM HOST")
    require_private_ledger_folder(folder)
    if int(term):
        return f"{int(term)} {host} {write_master_record(folder, program, int(term), host)}"
    return " ".join(map(str, read_master_record(folder, program)))
