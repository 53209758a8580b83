"""One endpoint has one text, and what is no address is refused with a reason that does not repeat it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.intake import Rejection
from duly.intake.addresses import normal_email, normal_phone, normal_url
from tests.intake.samples import NAUGHTY

NORMALISERS = (normal_email, normal_phone, normal_url)


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("ana@example.com", "ana@example.com"),
        ("Ana.B+rent@EXAMPLE.Com", "Ana.B+rent@example.com"),
        ("ana@b\u00fccher.example.com", "ana@xn--bcher-kva.example.com"),
        ("\u00e4na@b\u00fccher.de", "\u00e4na@b\u00fccher.de"),
        ("e\u0301va@example.com", "\u00e9va@example.com"),
    ],
)
def test_email_addresses_become_normal(address: str, normal: str) -> None:
    """Domains are lower case and ASCII where they can be; the mailbox keeps its case."""
    assert normal_email(address) == normal


@pytest.mark.parametrize(
    "address",
    [
        "no-at-sign",
        "a@b@example.com",
        "a@localhost",
        "a b@example.com",
        "a@example..com",
        "Ana <ana@example.com>",
        "a@[127.0.0.1]",
        "ana@example.com\r\nBcc: all@example.com",
        "a@" + "x" * 300 + ".com",
    ],
)
def test_what_is_no_email_address(address: str) -> None:
    """Anything but one bare address is refused."""
    with pytest.raises(Rejection, match=r"e-mail address|longer than"):
        normal_email(address)


@pytest.mark.parametrize(
    ("number", "normal"),
    [
        ("+14155550100", "+14155550100"),
        ("+1 (415) 555-0100", "+14155550100"),
        ("+49 (0)30 123456", "+4930123456"),
        ("+44.20.7946.0958", "+442079460958"),
    ],
)
def test_phone_numbers_become_e164(number: str, normal: str) -> None:
    """Blanks, brackets and dots are dressing."""
    assert normal_phone(number) == normal


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("4155550100", "international form"),
        ("tel:+14155550100", "international form"),
        ("+1 800 FLOWERS", "international form"),
        ("+14155550100 ext 5", "international form"),
        ("+1" + "2" * 50, "international form"),
        ("+\uff11\uff14155550100", "international form"),
        ("+999123456", "country"),
        ("+()", "country"),
        ("+1415555", "too short"),
    ],
)
def test_what_is_no_phone_number(number: str, words: str) -> None:
    """A region is never guessed, and letters and extensions are never dropped."""
    with pytest.raises(Rejection, match=words):
        normal_phone(number)


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://app.example.com/hooks", "https://app.example.com/hooks"),
        ("HTTPS://App.Example.COM/Hooks", "https://app.example.com/Hooks"),
        ("https://app.example.com", "https://app.example.com/"),
        ("https://app.example.com?a=1", "https://app.example.com/?a=1"),
        ("https://app.example.com:443/x", "https://app.example.com/x"),
        ("http://app.example.com:0080/x", "http://app.example.com/x"),
        ("http://app.example.com:443/", "http://app.example.com:443/"),
        ("http://app.example.com:/", "http://app.example.com/"),
        ("http://receiver:8080/in?a=b&c=%20?d", "http://receiver:8080/in?a=b&c=%20?d"),
        ("http://127.0.0.1:9000/ok/h1", "http://127.0.0.1:9000/ok/h1"),
        ("http://[0:0::1]:9000/", "http://[::1]:9000/"),
        ("https://b\u00fccher.example/\u0025C3", "https://xn--bcher-kva.example/%C3"),
        ("https://my_app.example.com/", "https://my_app.example.com/"),
    ],
)
def test_urls_become_normal(url: str, normal: str) -> None:
    """Scheme and host have one case, the default port goes, the path stays as it is."""
    assert normal_url(url) == normal


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("not a url", "is not a URL; write one like"),
        ("ftp://example.com/", "is not a URL; write one like"),
        ("http\u017f://example.com/", "is not a URL; write one like"),
        ("//example.com/", "is not a URL; write one like"),
        ("https:/example.com/", "is not a URL; write one like"),
        ("https://user:pw@example.com/", "user name"),
        ("https://example.com@evil.example/", "user name"),
        ("https://example.com/#top", "fragment"),
        ("https://example.com#top", "fragment"),
        ("https:///path", "host or port is wrong"),
        ("https://example.com:port/", "host or port is wrong"),
        ("https://[::1/", "host or port is wrong"),
        ("https://exam ple.com/", "host or port is wrong"),
        ("https://example.com\\@evil.example/", "user name"),
        ("https://example.com:0/", "port"),
        ("https://example.com:65536/", "port"),
        ("https://[::g]/", "host or port"),
        ("https://[:::]/", "neither a name nor an address"),
        ("https://example..com/", "neither a name nor an address"),
        ("https://example.com./", "neither a name nor an address"),
        ("https://-example.com/", "neither a name nor an address"),
        ("https://" + "a" * 64 + ".com/", "neither a name nor an address"),
        ("https://" + "a." * 130 + "com/", "neither a name nor an address"),
        ("https://" + "\u00fc" * 300 + "/", "neither a name nor an address"),
        ("https://\u2100.example/", "neither a name nor an address"),
        ("https://2130706433/", "neither a name nor an address"),
        ("https://0x7f.1/", "neither a name nor an address"),
        ("https://127.1/", "neither a name nor an address"),
        ("https://127.0.0.01/", "neither a name nor an address"),
        ("https://256.1.1.1/", "neither a name nor an address"),
        ("https://\u0661\u0662\u0667.\u0661/", "neither a name nor an address"),
        ("https://127\u30020\u30020\u30021/", "neither a name nor an address"),
        ("https://exa%6dple.com/", "neither a name nor an address"),
        ("https://example.com/a b", "must escape"),
        ("https://example.com/\u00fc", "must escape"),
        ("https://example.com/%zz", "must escape"),
        ("https://example.com/a\r\nHost: evil", "host or port is wrong|must escape"),
        ("https://example.com/[x]", "must escape"),
        ("https://example.com/" + "x" * 2_048, "longer than 2,048"),
        ("https://" + "a" * 20 + ".com?" + "x" * 2_015, "longer than 2,048"),
    ],
)  # fmt: skip
def test_what_is_no_url(url: str, words: str) -> None:
    """What two programs could read differently is refused."""
    with pytest.raises(Rejection, match=words):
        normal_url(url)


@pytest.mark.parametrize("normalise", NORMALISERS)
@given(st.one_of(st.text(), st.sampled_from(NAUGHTY), st.from_regex(r"https?://[^ ]{1,40}"), st.emails()))
def test_normal_addresses_are_stable_and_plain(normalise: Callable[[str], str], text: str) -> None:
    """Any text is refused, or becomes an address that is normal already and can stand in a header."""
    try:
        normal = normalise(text)
    except Rejection:
        return
    assert normalise(normal) == normal
    assert normal.isprintable()
    assert " " not in normal


@pytest.mark.parametrize("normalise", NORMALISERS)
def test_a_reason_never_repeats_the_address(normalise: Callable[[str], str]) -> None:
    """Reasons are printed and logged; addresses are not."""
    for address in ("sekret@sekret@sekret", "https://sekret:sekret", "+sekret", "sekret@sekret", "sekret@sekret.test"):
        with pytest.raises(Rejection) as caught:
            normalise(address)
        assert "sekret" not in str(caught.value)
