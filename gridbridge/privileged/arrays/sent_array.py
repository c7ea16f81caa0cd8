"""How far an array of an order came in this call, and what the service is told of that."""

from gridbridge.model.campaigns.campaign_names import ArrayId
from gridbridge.privileged import owner


class SentArray:
    """An array, and how far it came."""

    def __init__(self, array: ArrayId, index: int) -> None:
        self.array = array
        self.place = index  # in the order
        self.job = ""
        self.is_new = False  # nothing else can bear its name
        self.error: Exception | None = None

    def line(self) -> str:
        """Tell it to the service."""
        if not self.error:
            return f"0 {self.job or 0} "
        return f"{owner.status_of(self.error)} {self.job or 0} {owner.in_a_line(self.error)}"
