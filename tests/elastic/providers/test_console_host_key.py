"""Host keys in the console output of cloud-init."""

import pytest

from gridbridge.elastic.providers.provider_protocol_and_validation import find_console_host_key

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEV1aZ0WJkmP6xhNJQmY0v5jWJ8dJ1l1kYx3hR2oNw8K"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7"
    "opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
)
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
PRINTED = f"""\
[    0.000000] Linux version 6.1.0-18-cloud-amd64
<14>May  4 09:00:11 cloud-init: #############################################################
{BEGIN}\r
{ECDSA} root@ip-10-0-4-17\r
{ED25519} root@ip-10-0-4-17\r
{END}\r
[   14.204112] cloud-init[612]: Cloud-init v. 22.4.2 finished

Debian GNU/Linux 12 ip-10-0-4-17 ttyS0

ip-10-0-4-17 login:
"""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (PRINTED, ED25519),
        (PRINTED.replace(ED25519, "ssh-rsa AAAA"), ECDSA),
        (f"{PRINTED}{PRINTED.replace(ED25519, OTHER)}", OTHER),
        (f"[  11.2] cloud-init[612]: {BEGIN}\n[  11.2] cloud-init[612]: {ED25519}\n{END}", ED25519),
        (f"\x1b[0;32m{BEGIN}\n\x1b[0m{ED25519} x\n{END}", ED25519),
        ("", ""),
        (ED25519, ""),
        (PRINTED.replace(END, ""), ""),
        (f"{BEGIN}\n{ED25519[:-12]}", ""),
        (f"{BEGIN}\nssh-ed25519 AAAA\n{END}", ""),
        (f"{BEGIN}\nssh-ed25519\n\n{END}", ""),
        (f"{END}\n{ED25519}\n{BEGIN}", ""),
    ],
    ids=[
        *("the best of several", "the next best", "that of the last boot", "behind a log's times", "in colours"),
        *("nothing", "a key that stands alone", "without its end", "cut off", "no key", "half a key"),
        "the wrong way round",
    ],
)
def test_a_host_key_is_found_only_between_the_marks_of_cloud_init(printed: str, expected: str) -> None:
    assert expected == find_console_host_key(printed)
