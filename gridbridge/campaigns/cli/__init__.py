"""The grid commands: what users type to submit, watch and cancel campaigns."""

REFUSED = 1  # exit statuses besides those of cli/error_boundary
UNREACHABLE = 75  # no service answered; nothing was stored or changed
UNANSWERED = 76  # the request was handed over; its outcome is unknown
