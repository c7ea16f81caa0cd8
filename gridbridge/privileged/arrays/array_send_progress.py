"""How far one call of send-arrays came with an array; the call reports it to the service."""

from gridbridge.model.campaigns.campaign_names import CampaignArrayId
from gridbridge.privileged import owner


class ArraySendProgress:
    """One array's progress in a call of send-arrays."""

    def __init__(self, array: CampaignArrayId, index: int) -> None:
        self.array = array
        self.place = index  # position of the array in the call's arguments
        self.job = ""
        self.is_new = False  # whether the array's first submission happens in this call
        self.error: Exception | None = None

    def line(self) -> str:
        """Return an array's line for the service: exit status, job id or 0, and error."""
        if not self.error:
            return f"0 {self.job or 0} "
        status = owner.as_user_exit_status(self.error)
        return f"{status} {self.job or 0} {owner.limited_error_line(self.error)}"
