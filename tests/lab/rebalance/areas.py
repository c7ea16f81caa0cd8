"""Storage areas of a test, configured in a file of its own."""

from tests.lab.grid import Grid

MASTER = "alpha-master"
LIMITS = "[rebalance]\\nmin_free_bytes = 0\\nfull_free_bytes = 0\\ndisk_share = 1.0\\n"
OTHERS = "awk '/^\\[/ { mine = /^\\[(rebalance|storage)/ } !mine' /etc/gridbridge/gridbridge.toml"


def write_areas(grid: Grid, file: str, sections: str) -> None:
    grid.sh(MASTER, f"{{ {OTHERS}; printf '{LIMITS}{sections}'; }} >{file} && chmod 644 {file}")


def storage_section(name: str, cluster: str, path: str, kib_per_s: int) -> str:
    told = f'cluster = "{cluster}"\\npath = "{path}"\\nbwlimit_kib_per_s = {kib_per_s}\\n'
    return f"[storage.{name}]\\n{told}"
