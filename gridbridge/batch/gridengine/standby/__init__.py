"""Host tags and task rescheduling of a cell, for hosts that are halted and woken."""
