"""What gridnotify does: subscribe to messages about one's campaigns, end that, and list it."""

from gridbridge.campaigns.tools import campaign_client
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.owner_request import OwnerReply, OwnerVerb
from gridbridge.model.campaigns.subscriptions import IDENTITIES, NotificationChannel, Severity
from gridbridge.model.places import CAMPAIGNS, PUBLISHED

ONE = "0"  # under which the service answers


def require(way: NotificationChannel, identity: str) -> None:
    """Raise ParseError unless somebody can be told under such a name."""
    form = IDENTITIES[way]
    if not form.holds(identity):
        raise ParseError(f"{identity!r:.80}: wrong form; expected {form.right}")


def change(
    verb: OwnerVerb,
    way: NotificationChannel,
    identity: str,
    severity: Severity,
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
) -> OwnerReply:
    """Subscribe or unsubscribe; raises as `campaigns.ask`."""
    subscription = {"way": way.value, "identity": identity, "severity": severity.value}
    return OwnerReply(
        campaign_client.request_answer(verb, (), folder, published, subscription=subscription)[ONE]
    )


def listed(folder: str = CAMPAIGNS, published: str = PUBLISHED) -> list[dict[str, str]]:
    """Return one's own subscriptions, each with way, identity and severity."""
    subscriptions: list[dict[str, str]] = campaign_client.request_answer(
        OwnerVerb.SUBSCRIPTIONS, (), folder, published
    )["subscriptions"]
    return subscriptions
