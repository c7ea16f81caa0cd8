"""List the modules that journal decisions about transfers and replay decisions."""

from gridbridge.program.journal import JournalledDecision
from gridbridge.transfer.poller import plan_journal, recall_journal, refused_message_journal

JOURNALLED: tuple[JournalledDecision, ...] = (plan_journal, recall_journal, refused_message_journal)
