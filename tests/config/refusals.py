"""Texts of gridbridge.toml, and the problems for which a text is refused."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError

SITE = '[site]\ncluster = "alpha"\n'
PORTS = "qmaster_port = 6444\nexecd_port = 6445\n"
HOME = f"{SITE}[cluster.alpha]\n{PORTS}"


def problems_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        configuration_file.parse_configuration("FILE", text.encode())
    return [problem.removeprefix("FILE: ") for problem in refusal.value.problems]
