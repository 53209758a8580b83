"""Which IP addresses are public, so that a reminder may be sent to them.

The judgement is made on the address that is about to be connected to, after DNS, so that neither a name nor
a changed answer can lead inside. IPv4 is public unless it stands in a special-purpose block. IPv6 is public
only inside the global unicast space, less its own special blocks; an address that carries an IPv4 address
(mapped, NAT64, 6to4, Teredo) is as public as the address it carries.

Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and successors)
https://www.iana.org/assignments/iana-ipv4-special-registry, .../iana-ipv6-special-registry; the platform
address of Azure: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

__all__ = ["is_public"]

_CLOSED_V4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers (CGNAT)
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's platform, seen from inside only
        "169.254.0.0/16",  # link-local, and the clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relay, withdrawn
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_CLOSED_V6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments (Teredo is judged before)
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_public(ip_text: str) -> bool:
    """Whether the address, as text, is a public one. Text that is no address is not public."""
    try:
        address = ip_address(ip_text.partition("%")[0])
    except ValueError:
        return False
    return _is_public_v4(address) if isinstance(address, IPv4Address) else _is_public_v6(address)


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in block for block in _CLOSED_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    carried = _carried(address)
    if carried:
        return all(_is_public_v4(inner) for inner in carried)
    return address in _GLOBAL_V6 and not any(address in block for block in _CLOSED_V6)


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses inside: for Teredo the server's and the client's."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()
