"""The grid commands, with which users submit, watch and cancel campaigns."""

REFUSED = 1  # exit status of a refused request; cli/output_and_errors has the other exit statuses
UNREACHABLE = 75  # no service answered; nothing was stored or changed
UNANSWERED = 76  # the request may have been carried out; its outcome is unknown
