"""Tells one person something: by mail, by the site's command, or by the person's own program."""

from email.message import EmailMessage
from email.utils import formatdate

from gridbridge.batch import as_user_call
from gridbridge.model.campaigns.campaign_sections import Notifications
from gridbridge.model.campaigns.subscriptions import Notification, NotificationChannel
from gridbridge.model.places import WISH
from gridbridge.shell.runner import run

TIMEOUT_S = 30.0
LONGEST_S = as_user_call.PATIENCE_S + 5.0  # what does not end is killed before
MOST_BYTES = 1 << 16  # of what either program says
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
NO_ANSWER = "\n-- \ngridnotify -l tells what you are told, and gridnotify -u ends it.\n"


def deliver(message: Notification, policy: Notifications) -> None:
    """Tell it; CommandFailed or OSError when that did not succeed."""
    subscription = message.subscription
    if subscription.way is NotificationChannel.PROGRAM:
        as_user_call.call("notify-owner", f"{WISH}{subscription.token}", *message.words).checked()
        return
    if subscription.way is NotificationChannel.MAIL:
        argv: tuple[str, ...] = (policy.mail, "-i", subscription.identity)  # -i: a dot ends nothing
        text = mail(message)
    else:
        argv, text = (policy.command, subscription.identity), _text(message).encode()
    run(argv, ENVIRONMENT, TIMEOUT_S, text, MOST_BYTES).checked()


def mail(message: Notification) -> bytes:
    """Write a mail; a name of a campaign can add no header."""
    email = EmailMessage()
    email["To"] = message.subscription.identity
    email["Subject"] = message.subject
    email["Date"] = formatdate(localtime=True)
    email["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday answer comes back
    email.set_content("".join(f"{line}\n" for line in message.lines) + NO_ANSWER)
    return email.as_bytes()


def _text(message: Notification) -> str:
    return "".join(f"{line}\n" for line in (message.subject, *message.lines))
