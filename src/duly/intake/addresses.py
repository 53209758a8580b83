"""Addresses in the one form in which they are kept: one endpoint, one text.

- e-mail: RFC 5321 and 6531 by `email-validator`, without looking at DNS. The domain is lower case and
  in its ASCII form where the whole address has one, so that a server without SMTPUTF8 takes it.
- phone: E.164 by `phonenumbers`; the international form is required, because no region may be guessed.
  A number must be *possible*. Whether it is in use changes faster than the library's data, so that is the
  provider's to say.
- webhook: http or https, RFC 3986. Scheme and host are lower case, the host in its ASCII form (IDNA 2008,
  UTS 46), the default port is dropped, an empty path is `/`. No user, no fragment, nothing that a URL has
  to escape. A host that ends in a number must be an IPv4 address in its usual form, because other forms
  are read differently by different programs (https://url.spec.whatwg.org/#concept-host-parser). Where the
  host leads is asked when connecting, not here.

The reasons never repeat the address. Valid ones are remembered, because validating costs as much as the
rest of a row.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import idna
import phonenumbers
from email_validator import EmailNotValidError, validate_email
from phonenumbers import NumberParseException, PhoneNumberFormat

from duly.intake.rejection import Rejection

__all__ = ["ADDRESSES_CACHED_MAX", "URL_CHARACTERS_MAX", "normal_email", "normal_phone", "normal_url"]

EMAIL_CHARACTERS_MAX: Final = 254  # RFC 5321, 4.5.3.1.3, without the angle brackets
PHONE_CHARACTERS_MAX: Final = 40
URL_CHARACTERS_MAX: Final = 2_048
HOST_CHARACTERS_MAX: Final = 253
PORT_MAX: Final = 65_535
ADDRESSES_CACHED_MAX: Final = 16_384

_PHONE: Final = re.compile(r"\+[0-9 ().\-/]+")
_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]/?#@:\\\s]+)"
    r"(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[^?]*)?"
    r"(?P<query>\?.*)?",
    re.IGNORECASE | re.ASCII,
)
#: RFC 3986: unreserved and reserved characters but the brackets, and complete escapes.
_PLAIN_URL: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@lru_cache(ADDRESSES_CACHED_MAX)
def normal_email(address: str) -> str:
    """The normalised e-mail address. Raises Rejection."""
    if len(address) > EMAIL_CHARACTERS_MAX:
        raise Rejection(f"is longer than {EMAIL_CHARACTERS_MAX} characters")
    try:
        valid = validate_email(address, check_deliverability=False)
    except EmailNotValidError as error:
        raise Rejection(f"is not an e-mail address: {error}") from None
    return valid.ascii_email or valid.normalized


@lru_cache(ADDRESSES_CACHED_MAX)
def normal_phone(number: str) -> str:
    """The number in E.164. Raises Rejection."""
    if len(number) > PHONE_CHARACTERS_MAX or not _PHONE.fullmatch(number):
        raise Rejection("is not a number in international form; write one like +14155550100")
    try:
        parsed = phonenumbers.parse(number, None)
    except NumberParseException:
        raise Rejection("has no country's code that is known; write one like +14155550100") from None
    if not phonenumbers.is_possible_number(parsed):
        raise Rejection("is too short or too long for a number of its country")
    return phonenumbers.format_number(parsed, PhoneNumberFormat.E164)


@lru_cache(ADDRESSES_CACHED_MAX)
def normal_url(url: str) -> str:
    """The normalised URL. Raises Rejection."""
    if len(url) > URL_CHARACTERS_MAX:
        raise Rejection(f"is longer than {URL_CHARACTERS_MAX:,} characters")
    found = _URL.fullmatch(url)
    if found is None or "#" in url:
        raise Rejection(_why_not(url))
    scheme, tail = found["scheme"].lower(), (found["path"] or "/") + (found["query"] or "")
    if not _PLAIN_URL.fullmatch(tail):
        raise Rejection("holds a character that a URL must escape; write it as %XX")
    normal = f"{scheme}://{_host(found['host'].lower())}{_port(scheme, found['port'])}{tail}"
    if len(normal) > URL_CHARACTERS_MAX:
        raise Rejection(f"is longer than {URL_CHARACTERS_MAX:,} characters")
    return normal


def _why_not(url: str) -> str:
    """Which rule a URL breaks that does not even look like one."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not separator or scheme.lower() not in _DEFAULT_PORTS:
        return "is not a URL; write one like https://app.example.com/hooks"
    if "@" in authority:
        return "holds a user name; take it out, and let the signature prove who calls"
    if "#" in url:
        return "holds a fragment, which is never sent; take away what follows the #"
    return "is not a URL: its host or port is wrong; write one like https://app.example.com/hooks"


def _port(scheme: str, port: str | None) -> str:
    if not port or int(port) == _DEFAULT_PORTS[scheme]:
        return ""
    if not 1 <= int(port) <= PORT_MAX:
        raise Rejection(f"has a port that is not between 1 and {PORT_MAX}")
    return f":{int(port)}"


def _host(host: str) -> str:
    try:
        return _address(host) or _name(host)
    except (AddressValueError, idna.IDNAError, UnicodeError):
        raise Rejection("has a host that is neither a name nor an address") from None


def _address(host: str) -> str | None:
    """An IP address in its shortest form, or None if it is not meant to be one."""
    if host.startswith("["):
        return f"[{IPv6Address(host[1:-1])}]"
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return str(IPv4Address(host))
    return None


def _name(host: str) -> str:
    if len(host) <= HOST_CHARACTERS_MAX and not host.isascii():
        host = idna.encode(host, uts46=True).decode("ascii")
        _refuse_numbers(host)
    labels = host.split(".")
    if len(host) > HOST_CHARACTERS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise Rejection("has a host that is neither a name nor an address")
    return host


def _refuse_numbers(host: str) -> None:
    """Digits of other scripts become plain ones: they must not become an address that nobody saw."""
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise Rejection("has a host that is neither a name nor an address")
