"""Pictures: the one place that knows matplotlib."""

import logging

# Where it keeps its fonts is nothing that a reader of a picture has to know.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
