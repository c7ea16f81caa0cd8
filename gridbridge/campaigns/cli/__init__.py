"""What users type about campaigns."""

REFUSED = 1  # exit statuses besides those of cli/error_boundary
UNREACHABLE = 75  # nothing is stored, nothing is changed
UNANSWERED = 76  # perhaps it is
