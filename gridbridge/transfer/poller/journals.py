"""The decisions about transfers that are kept; each module makes its own again."""

from gridbridge.program.journal import JournalledDecision
from gridbridge.transfer.poller import plan_journal, recall_journal, refused_message_journal

JOURNALLED: tuple[JournalledDecision, ...] = (plan_journal, recall_journal, refused_message_journal)
