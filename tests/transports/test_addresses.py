"""Which addresses are public, by table."""

from __future__ import annotations

import pytest

from duly.transports.addresses import is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:0808:0808::1",
    "2001:0:808:808::f7f7:f7f7",  # Teredo: server 8.8.8.8, client 8.8.8.8 (stored inverted)
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",  # metadata of Alibaba Cloud
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",  # Azure's platform
    "169.254.169.254",  # metadata
    "169.254.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",  # metadata of Oracle Cloud
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",  # IPv4-compatible, withdrawn
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",  # NAT64 of a local network
    "100::1",
    "2001:db8::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2002:7f00:1::1",
    "2002:c0a8:101::1",
    "2002:a9fe:a9fe::",
    "2001:0:7f00:1::f7f7:f7f7",  # Teredo by way of a server at 127.0.0.1
    "2001:0:808:808::80ff:fffe",  # Teredo to a client at 127.0.0.1
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata of AWS
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
NO_ADDRESS = ["", "localhost", "127.0.0.1:80", "2130706433", "0x7f.1", "127.1", "1.2.3.4.5", "::g", "\x00", "1.1.1.1 "]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_public(text: str) -> None:
    """Addresses that anybody may be sent to are let through, also at the edges of special blocks."""
    assert is_public(text)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_a_special_address_is_not_public(text: str) -> None:
    """Addresses inside, reserved or carrying such an address are refused."""
    assert not is_public(text)


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_what_is_no_address_is_not_public(text: str) -> None:
    """Text that is not an address in its usual form is refused, not guessed at."""
    assert not is_public(text)
