"""gridbridge config: prints the keys of gridbridge.toml with their values in force."""

from dataclasses import asdict

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, JSON
from gridbridge.config import config_key_listing, configuration_file
from gridbridge.config.section_parsing import shorten_and_redact_value
from gridbridge.decisions.site import service_fault_findings
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.program.configuration_in_force import sha256_of_file
from gridbridge.shell.clock import Clock
from gridbridge.site.site_inspection import inspect_poller

HEAD = ("KEY", "VALUE", "DEFAULT", "UNIT", "MEANING")
REQUIRED = "required"
NO_SECTION = "-"


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Print every key, also keys with their default.")
@JSON
@CONFIG_FILE
def config(is_all: bool, is_json: bool, path: str) -> None:
    """Print the keys of gridbridge.toml that differ from the defaults.

    With --all every key is printed. Each line has the key with its section, the value in force, the default, the unit
    and the meaning. A section that the site does not have is listed with NAME in its title and - as the value. If the
    service still uses an older gridbridge.toml, a line on standard error says why. Exit status: 0 done; 2 an error in
    gridbridge.toml.

    \b
    Example:
      gridbridge config
      gridbridge config --all | grep ^poller
    """
    raw = configuration_file.read_configuration_bytes(path)
    policy = configuration_file.parse_configuration(path, raw)
    keys = [key for key in config_key_listing.list_config_keys(policy) if is_all or not key.is_default]
    if path == CONFIG:
        poller = inspect_poller(sha256_of_file(raw), Clock().now_s())
        if reason := service_fault_findings.stale_configuration_reason(poller):
            output_and_errors.print_error(f"gridbridge: {reason}")
    if is_json:
        output_and_errors.print_json([asdict(key) | {"is_default": key.is_default} for key in keys])
    else:
        output_and_errors.print_table(HEAD, [_row_of_key(key) for key in keys], unbroken=HEAD[:1])


def _row_of_key(key: config_key_listing.ConfigKeyListing) -> tuple[str, ...]:
    value = NO_SECTION if key.value is None else shorten_and_redact_value(key.value)
    default = REQUIRED if key.default is None else shorten_and_redact_value(key.default)
    return (f"{key.section}.{key.key}", value, default, key.unit, key.meaning)
