"""The leases of leading masters, and the check of the term in each transaction that changes something.

All times are the database's. A transaction that changes something locks the lease's row against a change of the term
(FOR KEY SHARE), but not against renewals. A master takes the lease by FOR UPDATE, so it waits for such transactions.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from gridbridge.errors import MasterDeposed
from gridbridge.model.campaigns.campaign_master_lease import CampaignMasterLease, MasterProgram
from gridbridge.model.site.site_section import LONGEST_LEASE_S
from gridbridge.state import column_types
from gridbridge.state.state_file import StateFile

LEASES = sa.Table(
    "campaign_masters",
    column_types.METADATA,
    sa.Column("program", column_types.EnumWordColumn(MasterProgram), primary_key=True),
    *column_types.integer_columns("term", "accepted_term"),
    *column_types.text_columns("host"),
    *column_types.float_columns("expires_s"),  # seconds since 1970 on the database's clock
    sa.Column("folders", column_types.JsonColumn, nullable=False),
)
CLOCKS = {  # the database's clock during a statement, not at the begin of its transaction
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)",
}
PATIENCE_MS = 1000  # a transaction that blocks the change of an expired lease for longer is ended
SESSIONS_OF_TERM = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user AND application_name = :name"
)


def session_name(program: MasterProgram, term: int) -> str:
    """Return the name under which a master's sessions are listed in pg_stat_activity."""
    return f"gridbridge-{program}-{term}"


class MasterLeaseRows:
    def __init__(self, database: StateFile, clock: str = "") -> None:
        """`clock` is an SQL expression for the time in seconds, by default the database's clock."""
        self._database = database
        self._now = sa.literal_column(clock or CLOCKS[database.dialect], sa.Float)

    def read_master_lease(self, program: MasterProgram) -> CampaignMasterLease:
        query = sa.select(LEASES, (LEASES.c.expires_s - self._now).label("left_s")).where(LEASES.c.program == program)
        for row in self._database.rows(query):
            return CampaignMasterLease(**{name: value for name, value in row.items() if name != "expires_s"})
        return CampaignMasterLease(program=program, folders={})

    def take_master_lease(self, lease: CampaignMasterLease, host: str, lease_s: float) -> int:
        """Take the lease as it was read; return the new term, or 0 if another process took or renewed the lease."""
        term, of = lease.term + 1, (LEASES.c.program == lease.program, LEASES.c.term == lease.term)
        with self._database.transaction():
            if not lease.term:
                first = {"program": lease.program, "term": 0, "accepted_term": 0, "host": "", "expires_s": 0.0}
                self._database.execute(self._database.insert_if_missing(LEASES), {**first, "folders": {}})
            self._database.limit_lock_waits(PATIENCE_MS)
            left_s = LEASES.c.expires_s - self._now
            is_free = sa.or_(LEASES.c.host.in_(("", host)), left_s <= 0, left_s > LONGEST_LEASE_S)
            if not self._database.rows(sa.select(LEASES.c.term).where(*of, is_free).with_for_update()):
                return 0
            taken = sa.update(LEASES).where(*of).values(term=term, host=host, expires_s=self._now + lease_s)
            self._database.execute(taken)
        return term

    def end_database_sessions_of_term(self, program: MasterProgram, term: int) -> None:
        """End the sessions of a master whose lease has expired: a session may block the change of the lease."""
        if self._database.dialect == "postgresql":
            self._database.rows(SESSIONS_OF_TERM, name=session_name(program, term))

    def raise_term_of_lease(self, program: MasterProgram, term: int, higher: int) -> bool:
        return self._change_lease(program, term, term=higher)

    def renew_master_lease(self, program: MasterProgram, term: int, lease_s: float) -> bool:
        """Extend the lease from now, even if it has expired; return False if another process leads."""
        return self._change_lease(program, term, expires_s=self._now + lease_s)

    def record_marked_folders(self, program: MasterProgram, term: int, folders: Mapping[str, int]) -> bool:
        return self._change_lease(program, term, accepted_term=term, folders=dict(folders))

    def give_up_lease(self, program: MasterProgram, term: int) -> bool:
        return self._change_lease(program, term, host="", expires_s=self._now)

    def _change_lease(self, program: MasterProgram, of_term: int, **values: object) -> bool:
        of = (LEASES.c.program == program, LEASES.c.term == of_term)
        return self._database.execute(sa.update(LEASES).where(*of).values(**values)).rowcount == 1


def require_term_in_transaction(connection: sa.Connection, program: MasterProgram, term: int) -> None:
    """Raise MasterDeposed if another master leads; else let no master take the lease before this transaction ends."""
    query = sa.select(LEASES.c.term).where(LEASES.c.program == program).with_for_update(read=True, key_share=True)
    if connection.execute(query).scalar() != term:
        raise MasterDeposed(f"{program}: another master leads; nothing was stored")
