"""The configuration: what is taken, what is refused and in which words, and what is never printed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.caps import Cap
from duly.core.model import Channel, OnDoubt
from duly.core.quiet_hours import read_windows
from duly.errors import ConfigError, DulyError
from duly.runtime.config import Config, Secret, Smtp, SmtpServer, Webhook, load, parse
from duly.runtime.config.values import parse_database, parse_smtp
from duly.runtime.config.view import document, lines

FULL: Final = """
database = "sqlite:///duly.db"
queue    = "database"
lease_seconds = 60
namespace = "0a1b2c"

[providers.hooks]
kind = "webhook"
channel = "webhook"
secret = "env:HOOK_SECRET"
timeout_seconds = 10
rate_per_second = 200
deduplicates = true
key_window = "P7D"
allow_private_networks = false

[endpoints.acme]
url = "https://hooks.acme.example/in"
secret = ["env:ACME_NEW", "env:ACME_OLD"]
deduplicates = false
lookup_url = "https://hooks.acme.example/deliveries/{delivery}"
settling_seconds = 30

[providers.mail]
kind = "smtp"
channel = "email"
url = "smtp://localhost:2525"
from = "Harbour Lofts <reminders@example.com>"

[accounts.harbour-lofts]
zone = "America/New_York"
on_doubt = "resend"
quiet_hours = ["21:00-08:00", "sun 00:00-24:00"]
quiet_purposes = ["marketing", "service"]
caps = { marketing = "3/P1D", service = "10/P1D" }

[templates.inspection]
subject = "Inspection on {{ data.day }}"
text = "Hello {{ recipient.name }}."
"""

LEAST: Final = 'database = "sqlite:///duly.db"\n'
LOFTS: Final = LEAST + '[accounts.lofts]\nzone = "Europe/Berlin"\n'
UNSUBSCRIBE: Final = LEAST + '[unsubscribe]\nurl = "https://r.example.com/u/"\nsecret = "env:S"\n'
HOOKS: Final = LEAST + '[providers.hooks]\nkind = "webhook"\nsecret = "env:S"\n'
MAIL: Final = LEAST + '[providers.mail]\nkind = "smtp"\nurl = "smtp://localhost"\nfrom = "a@example.com"\n'


def read(text: str, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of this text, as if it stood in duly.toml."""
    return parse(text, Path("duly.toml"), environ or {})


def refusal(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """The lines with which this text is refused."""
    with pytest.raises(ConfigError) as caught:
        read(text, environ)
    return str(caught.value).splitlines()


# --- what is taken -------------------------------------------------------------------------------


def test_the_documented_file_loads() -> None:
    """Every key of the documented file arrives as the value that it stands for."""
    config = read(FULL)
    hooks, mail = config.providers["hooks"], config.providers["mail"]
    assert isinstance(hooks, Webhook)
    assert (hooks.channel, hooks.timeout_seconds, hooks.rate_per_second) == (Channel.WEBHOOK, 10.0, 200.0)
    assert (hooks.deduplicates, hooks.key_window) == (True, timedelta(days=7))
    assert isinstance(mail, Smtp)
    assert (mail.channel, mail.sender) == (Channel.EMAIL, "Harbour Lofts <reminders@example.com>")
    assert mail.server == SmtpServer("none", "localhost", 2525, None)
    assert (config.lease_seconds, config.namespace, config.queue) == (60.0, "0a1b2c", "database")
    acme = config.endpoints["acme"]
    assert [secret.key for secret in acme.secrets or ()] == ["endpoints.acme.secret[0]", "endpoints.acme.secret[1]"]
    assert (acme.deduplicates, acme.key_window, acme.rate_per_second) == (False, None, None)
    assert (acme.lookup_url, acme.settling_seconds) == ("https://hooks.acme.example/deliveries/{delivery}", 30.0)
    lofts = config.accounts["harbour-lofts"]
    assert lofts.on_doubt is OnDoubt.RESEND
    assert lofts.quiet_hours == lofts.windows == read_windows(["21:00-08:00", "sun 00:00-24:00"])
    assert lofts.quiet_purposes == ("marketing", "service")
    assert lofts.caps == {"marketing": Cap(3, timedelta(days=1)), "service": Cap(10, timedelta(days=1))}
    assert config.templates["inspection"].html is None


def test_the_least_file_has_sound_defaults() -> None:
    """One line is a configuration; everything else has the default that the documentation states."""
    config = read(LEAST)
    assert (config.queue, config.namespace, config.lease_seconds) == ("database", None, 60.0)
    hooks, mail = read(HOOKS).providers["hooks"], read(MAIL).providers["mail"]
    assert isinstance(hooks, Webhook)
    assert (hooks.timeout_seconds, hooks.rate_per_second, hooks.max_attempts) == (10.0, None, 100)
    assert (hooks.deduplicates, hooks.key_window, hooks.allow_private_networks) == (False, timedelta(days=1), False)
    assert (hooks.lookup_url, hooks.settling_seconds) == (None, 60.0)
    assert (mail.timeout_seconds, mail.rate_per_second, mail.max_attempts) == (30.0, None, 100)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://a.example/deliveries/{delivery}", "https://a.example/deliveries/{delivery}"),
        ("HTTPS://A.Example:443?of=us&id={delivery}", "https://a.example/?of=us&id={delivery}"),
        ("http://[::1]:8080/{delivery}/state", "http://[::1]:8080/{delivery}/state"),
        ("", ""),
    ],
)
def test_a_place_to_ask_is_kept_in_its_normal_form(written: str, meant: str) -> None:
    """A look-up's URL is read like any other, around the place of the id; an empty one says that there is none."""
    config = read(f'{HOOKS}lookup_url = "{written}"\n[endpoints.a]\nurl = "https://a"\nlookup_url = "{written}"')
    hooks = config.providers["hooks"]
    assert isinstance(hooks, Webhook)
    assert (hooks.lookup_url, config.endpoints["a"].lookup_url) == (meant, meant)
    assert config.endpoints["a"].settling_seconds is None


def test_what_a_template_may_cost_as_sms() -> None:
    """Ten segments of the text as it is, unless the template says otherwise."""
    chosen = "[templates.b]\ntext = 'x'\nsms_segments_max = 3\nsms_to_gsm = true"
    templates = read(f"{LEAST}[templates.a]\ntext = 'x'\n{chosen}").templates
    assert (templates["a"].sms_segments_max, templates["a"].sms_to_gsm) == (10, False)
    assert (templates["b"].sms_segments_max, templates["b"].sms_to_gsm) == (3, True)


def test_unsubscribing_is_configured() -> None:
    """The URL is kept in its normal form, marketing is the purpose by default, and several secrets rotate."""
    least, none = read(UNSUBSCRIBE).unsubscribe, read(LEAST).unsubscribe
    assert none is None
    assert least is not None
    assert (least.url, least.purposes) == ("https://r.example.com/u", ("marketing",))
    more = read(UNSUBSCRIBE.replace('"env:S"', '["env:NEW", "env:OLD"]') + 'purposes = ["news", "offers"]').unsubscribe
    assert more is not None
    assert more.purposes == ("news", "offers")
    assert [secret.key for secret in more.secrets] == ["unsubscribe.secret[0]", "unsubscribe.secret[1]"]


def test_unsubscribing_is_configured_by_the_environment() -> None:
    """Each key has its variable; purposes are parted by commas, and a secret stays a secret."""
    environ = {
        "DULY_UNSUBSCRIBE__URL": "https://r.example.com/u",
        "DULY_UNSUBSCRIBE__SECRET": "topsecret",
        "DULY_UNSUBSCRIBE__PURPOSES": "news, offers",
    }
    config = read(LEAST, environ)
    assert config.unsubscribe is not None
    assert config.unsubscribe.purposes == ("news", "offers")
    assert config.unsubscribe.secrets[0].reveal() == "topsecret"
    assert "topsecret" not in repr(config) + str(document(config)) + str(list(lines(config)))


def test_nothing_changes_after_loading() -> None:
    """A loaded configuration cannot be written to."""
    with pytest.raises(ValueError, match="frozen"):
        read(LEAST).lease_seconds = 1.0


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    """A file that an editor began with a byte order mark loads."""
    file = tmp_path / "duly.toml"
    file.write_bytes(b"\xef\xbb\xbf" + LEAST.encode())
    assert load(file, {}).file == file


# --- what is refused -----------------------------------------------------------------------------

REFUSED: Final = {
    "empty file": ("", 'duly.toml: database: missing; say where the ledger is, such as "sqlite:///duly.db"'),
    "unknown key": (LEAST + "lease_secnds = 9", 'duly.toml: lease_secnds: unknown key; did you mean "lease_seconds"?'),
    "unknown key, nothing near": (LEAST + "xyz = 9", "duly.toml: xyz: unknown key"),
    "unknown key of a provider": (
        HOOKS + 'secrt = "x"',
        'duly.toml: providers.hooks.secrt: unknown key; did you mean "secret"?',
    ),
    "unknown key, spelled as in code": (
        MAIL + 'sender = "x"',
        "duly.toml: providers.mail.sender: unknown key",
    ),
    "unknown key of an account": (
        LEAST + '[accounts.a]\non_dout = "hold"',
        'duly.toml: accounts.a.on_dout: unknown key; did you mean "on_doubt"?',
    ),
    "broker": (
        LEAST.replace("\n", '\nqueue = "amqp://h/v"'),
        'duly.toml: queue: only "database" is in this version of Duly; brokers are not in it yet',
    ),
    "text for a number": (LEAST + 'lease_seconds = "60"', "duly.toml: lease_seconds: expected a number, got text"),
    "truth for a number": (
        LEAST + "lease_seconds = true",
        "duly.toml: lease_seconds: expected a number, got true or false",
    ),
    "infinity": (LEAST + "lease_seconds = inf", "duly.toml: lease_seconds: expected a finite number"),
    "no number": (LEAST + "lease_seconds = nan", "duly.toml: lease_seconds: expected a finite number"),
    "negative": (LEAST + "lease_seconds = -1", "duly.toml: lease_seconds: must be more than 0"),
    "too much": (LEAST + "lease_seconds = 3601", "duly.toml: lease_seconds: must be at most 3600"),
    "part of a whole": (
        HOOKS + "max_attempts = 1.5",
        "duly.toml: providers.hooks.max_attempts: expected a whole number, got a number",
    ),
    "no attempts": (HOOKS + "max_attempts = 0", "duly.toml: providers.hooks.max_attempts: must be at least 1"),
    "number for a switch": (
        HOOKS + "deduplicates = 1",
        "duly.toml: providers.hooks.deduplicates: expected true or false, got a number",
    ),
    "value for a table": (LEAST + "providers = 5", "duly.toml: providers: expected a table, got a number"),
    "value for a provider": (
        LEAST + "[providers]\nhooks = 5",
        "duly.toml: providers.hooks: expected a table, got a number",
    ),
    "date for text": (LEAST + "namespace = 2026-01-01", "duly.toml: namespace: expected text, got a date or time"),
    "namespace": (
        LEAST + 'namespace = "a b"',
        "duly.toml: namespace: holds letters, digits, '.', '_' and '-' only, at most 64 of them",
    ),
    "no kind": (LEAST + "[providers.x]", "duly.toml: providers.x.kind: missing; one of smtp, webhook"),
    "other kind": (
        LEAST + '[providers.x]\nkind = "webhok"',
        'duly.toml: providers.x.kind: not a kind of this version, which has smtp and webhook; did you mean "webhook"?',
    ),
    "channel of another kind": (
        HOOKS + 'channel = "email"',
        'duly.toml: providers.hooks.channel: this kind delivers on channel "webhook"',
    ),
    "no secret": (
        LEAST + '[providers.x]\nkind = "webhook"',
        'duly.toml: providers.x.secret: missing; write "env:NAME" or "file:PATH", naming where the whsec_ secret is',
    ),
    "empty secret": (
        HOOKS.replace("env:S", ""),
        'duly.toml: providers.hooks.secret: empty; write "env:NAME" or "file:PATH"',
    ),
    "no secret in the list": (
        HOOKS.replace('"env:S"', "[]"),
        "duly.toml: providers.hooks.secret: must not be empty",
    ),
    "number for a secret": (
        HOOKS.replace('"env:S"', "7"),
        'duly.toml: providers.hooks.secret: expected text, such as "env:NAME", got a number',
    ),
    "variable that cannot be": (
        HOOKS.replace("env:S", "env:9 lives"),
        'duly.toml: providers.hooks.secret: the name after "env:" is not the name of an environment variable',
    ),
    "months": (
        HOOKS + 'key_window = "P1M"',
        "duly.toml: providers.hooks.key_window: months and years have no fixed length; write days, like P30D",
    ),
    "zone": (
        LEAST + '[accounts.a]\nzone = "America/New_Yrok"',
        'duly.toml: accounts.a.zone: there is no such time zone; did you mean "America/New_York"?',
    ),
    "zone that climbs": (
        LEAST + '[accounts.a]\nzone = "../../etc/passwd"',
        "duly.toml: accounts.a.zone: there is no such time zone",
    ),
    "zone that is a folder": (
        LEAST + '[accounts.a]\nzone = "America"',
        "duly.toml: accounts.a.zone: there is no such time zone",
    ),
    "policy": (
        LEAST + '[accounts.a]\non_doubt = "keep"',
        "duly.toml: accounts.a.on_doubt: must be 'hold', 'resend' or 'close'",
    ),
    "a hold that is held again": (
        LEAST + '[accounts.a]\nhold_then = "hold"',
        "duly.toml: accounts.a.hold_then: must be 'close' or 'resend'",
    ),
    "an alarm after the end": (
        LEAST + '[accounts.a]\nhold_for = "PT4H"',
        "duly.toml: accounts.a.hold_alarm: must be shorter than hold_for of this account",
    ),
    "template without text": (LEAST + '[templates.t]\nsubject = "x"', "duly.toml: templates.t.text: missing"),
    "no segments": (
        LEAST + '[templates.t]\ntext = "x"\nsms_segments_max = 0',
        "duly.toml: templates.t.sms_segments_max: must be at least 1",
    ),
    "more segments than an SMS has": (
        LEAST + '[templates.t]\ntext = "x"\nsms_segments_max = 256',
        "duly.toml: templates.t.sms_segments_max: must be at most 255",
    ),
    "links in the clear": (
        UNSUBSCRIBE.replace("https", "http"),
        "duly.toml: unsubscribe.url: must be https: mail programs follow no other link (RFC 8058)",
    ),
    "links with a query": (
        UNSUBSCRIBE.replace("/u/", "/u?a=b"),
        "duly.toml: unsubscribe.url: holds a query; a token is put behind its path, so take away what follows the ?",
    ),
    "links that no header holds": (
        UNSUBSCRIBE.replace("/u/", "/u" * 200),
        "duly.toml: unsubscribe.url: longer than 400 characters",
    ),
    "links that nothing signs": (
        UNSUBSCRIBE.replace('secret = "env:S"', ""),
        'duly.toml: unsubscribe.secret: missing; write "env:NAME" or "file:PATH", naming where a long random secret is',
    ),
    "links for nothing": (UNSUBSCRIBE + "purposes = []", "duly.toml: unsubscribe.purposes: must not be empty"),
    "a purpose that is no name": (
        UNSUBSCRIBE + 'purposes = ["a\\nb"]',
        "duly.toml: unsubscribe.purposes: a name holds no control characters",
    ),
    "purposes that are no list": (
        UNSUBSCRIBE + "purposes = 5",
        'duly.toml: unsubscribe.purposes: expected a list of texts, such as ["marketing"]',
    ),
    "unknown key about unsubscribing": (
        UNSUBSCRIBE + 'purpose = ["marketing"]',
        'duly.toml: unsubscribe.purpose: unknown key; did you mean "purposes"?',
    ),
    "value for unsubscribing": (LEAST + "unsubscribe = 5", "duly.toml: unsubscribe: expected a table, got a number"),
    "name with a blank": (
        LEAST + '[templates."a b"]\ntext = "x"',
        'duly.toml: templates."a b": a name holds letters, digits, - and _ only',
    ),
    "name with a line break": (
        LEAST + '["x\\ny"]',
        'duly.toml: "x\\ny": unknown key',
    ),
    "endpoint that is no URL": (
        LEAST + '[endpoints.a]\nurl = "ftp://a"',
        "duly.toml: endpoints.a.url: ",
    ),
    "place to ask without an id": (
        HOOKS + 'lookup_url = "https://a.example/deliveries"',
        "duly.toml: providers.hooks.lookup_url: {delivery} must stand in it once, where the delivery's id goes",
    ),
    "place to ask with two ids": (
        LEAST + '[endpoints.a]\nurl = "https://a"\nlookup_url = "https://a/{delivery}/{delivery}"',
        "duly.toml: endpoints.a.lookup_url: {delivery} must stand in it once",
    ),
    "place to ask with another mark": (
        HOOKS + 'lookup_url = "https://a.example/{id}/{delivery}"',
        "duly.toml: providers.hooks.lookup_url: holds a character that a URL must escape; write it as %XX",
    ),
    "place to ask whose host is the id": (
        HOOKS + 'lookup_url = "https://{delivery}.example/"',
        "duly.toml: providers.hooks.lookup_url: {delivery} must stand in the path or the query, not in the host",
    ),
    "place to ask with a step back": (
        HOOKS + 'lookup_url = "https://a.example/{delivery}/.."',
        "duly.toml: providers.hooks.lookup_url: its path may not hold . or .. as a step",
    ),
    "place to ask with a step in disguise": (
        HOOKS + 'lookup_url = "https://a.example/{delivery}/%2e%2E/x"',
        "duly.toml: providers.hooks.lookup_url: its path may not hold . or .. as a step",
    ),
    "place to ask that is no URL": (
        HOOKS + 'lookup_url = "ftp://a.example/{delivery}"',
        "duly.toml: providers.hooks.lookup_url: is not a URL",
    ),
    "place to ask with a user": (
        HOOKS + 'lookup_url = "https://me:secret@a.example/{delivery}"',
        "duly.toml: providers.hooks.lookup_url: holds a user name; take it out",
    ),
    "nothing to settle": (
        HOOKS + "settling_seconds = 0",
        "duly.toml: providers.hooks.settling_seconds: must be at least 0.01",
    ),
    "settling for days": (
        LEAST + '[endpoints.a]\nurl = "https://a"\nsettling_seconds = 86401',
        "duly.toml: endpoints.a.settling_seconds: must be at most 86400",
    ),
    "unknown key about asking": (
        HOOKS + 'lokup_url = "https://a/{delivery}"',
        'duly.toml: providers.hooks.lokup_url: unknown key; did you mean "lookup_url"?',
    ),
    "unknown key of an endpoint": (
        LEAST + '[endpoints.a]\nurl = "https://a"\nsettling_secs = 3',
        'duly.toml: endpoints.a.settling_secs: unknown key; did you mean "settling_seconds"?',
    ),
    "a relay cannot be asked": (
        MAIL + 'lookup_url = "https://a/{delivery}"',
        "duly.toml: providers.mail.lookup_url: unknown key",
    ),
    "sender": (
        MAIL.replace("a@example.com", "nobody"),
        'duly.toml: providers.mail.from: not a sender; write "reminders@example.com"',
    ),
    "sender with a line break": (
        MAIL.replace("a@example.com", "a@example.com\\r\\nBcc: b@example.com"),
        "duly.toml: providers.mail.from: not a sender",
    ),
    "password without a user": (
        MAIL + 'password = "env:P"',
        "duly.toml: providers.mail: a password without a user name; write username",
    ),
    "two users": (
        MAIL.replace("smtp://localhost", "smtp://a@localhost") + 'username = "b"',
        "duly.toml: providers.mail: the user name stands in url and in username; write one of them",
    ),
    "lease too short": (
        MAIL.replace("\n", "\nlease_seconds = 32\n", 1),
        "duly.toml: lease_seconds: 32 is too short: it must be more than 32, which is providers.mail",
    ),
    "one channel twice": (
        HOOKS + '[providers.other]\nkind = "webhook"\nsecret = "env:S"',
        "duly.toml: providers.other: serves channel webhook, as providers.hooks does",
    ),
    "one endpoint twice": (
        LEAST + '[endpoints.a]\nurl = "https://x.example"\n[endpoints.b]\nurl = "HTTPS://X.example:443/"',
        "duly.toml: endpoints.b.url: the same URL as endpoints.a",
    ),
    "a window that is none": (
        LOFTS + 'quiet_hours = ["21:00-08:00", "nights"]',
        "duly.toml: accounts.lofts.quiet_hours: window 2: it is not a window of quiet hours; write one",
    ),
    "windows that are no texts": (
        LOFTS + "quiet_hours = [21.00]",
        'duly.toml: accounts.lofts.quiet_hours: expected a list of texts, such as ["21:00-08:00"]',
    ),
    "windows without end": (
        LOFTS + f"quiet_hours = {['21:00-08:00'] * 21}",
        "duly.toml: accounts.lofts.quiet_hours: there are over 20 windows",
    ),
    "windows that leave no time": (
        LOFTS + 'quiet_hours = "00:00-24:00"',
        "duly.toml: accounts.lofts.quiet_hours: the windows cover the whole week",
    ),
    "hours of nowhere": (
        LOFTS + 'quiet_region = "us-f"',
        'duly.toml: accounts.lofts.quiet_region: no hours have this name; did you mean "us-',
    ),
    "hours of no region at all": (
        LOFTS + 'quiet_region = "atlantis"',
        "duly.toml: accounts.lofts.quiet_region: no hours have this name; there are ae, ca, cautious, fr,",
    ),
    "hours given twice": (
        LOFTS + 'quiet_hours = "21:00-08:00"\nquiet_region = "us"',
        "duly.toml: accounts.lofts.quiet_region: quiet_hours says when it is quiet already; write one of them",
    ),
    "hours without a zone": (
        LEAST + '[accounts.lofts]\nquiet_hours = "21:00-08:00"',
        "duly.toml: accounts.lofts.zone: missing; quiet hours need it, for recipients whose own zone is not known",
    ),
    "a region without a zone": (LEAST + '[accounts.a]\nquiet_region = "us"', "duly.toml: accounts.a.zone: missing;"),
    "no purposes": (LOFTS + "quiet_purposes = []", "duly.toml: accounts.lofts.quiet_purposes: must not be empty"),
    "purposes that are no texts": (
        LOFTS + "quiet_purposes = true",
        'duly.toml: accounts.lofts.quiet_purposes: expected a list of texts, such as ["marketing"]',
    ),
    "a purpose over two lines": (
        LOFTS + 'quiet_purposes = ["a\\nb"]',
        "duly.toml: accounts.lofts.quiet_purposes: a name holds no control characters",
    ),
    "unknown key about quiet": (
        LOFTS + 'quiet_hour = "21:00-08:00"',
        'duly.toml: accounts.lofts.quiet_hour: unknown key; did you mean "quiet_hours"?',
    ),
    "a cap that is none": (
        LOFTS + 'caps.marketing = "3 a day"',
        "duly.toml: accounts.lofts.caps.marketing: it is not a cap; write one like 3/P1D",
    ),
    "a cap that is a number": (
        LOFTS + "caps = { marketing = 3 }",
        'duly.toml: accounts.lofts.caps.marketing: expected text, such as "3/P1D"',
    ),
    "caps that are no table": (LOFTS + 'caps = "3/P1D"', "duly.toml: accounts.lofts.caps: expected a table, got text"),
    "a cap for no purpose": (LOFTS + 'caps."" = "3/P1D"', 'duly.toml: accounts.lofts.caps."": must not be empty'),
    "syntax": ("database = \n", "duly.toml: line 1, column 12: not TOML: "),
    "syntax at the end": ('a = 1\nb = "', "duly.toml: line 2, column 6: not TOML: "),
    "the same key twice": (LEAST + LEAST, "duly.toml: line 2, column 31: not TOML: "),
    "a number without end": (f"a = {'9' * 5000}", "duly.toml: not TOML: a number or date in it cannot be read"),
    "nested without end": (f"a = {'[' * 5000}", "duly.toml: nested too deeply"),
    "tables without end": (f"[{'a.' * 5000}a]", "duly.toml: database: missing"),
}


@pytest.mark.parametrize(("text", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_a_wrong_file_is_refused_in_one_line(text: str, line: str) -> None:
    """The first line names the file and the key, and says what to write."""
    assert refusal(text)[0].startswith(line)


def test_all_problems_are_listed() -> None:
    """A file with several faults is refused once, with a line for each, also across tables."""
    text = HOOKS.replace("\n", '\nlease_seconds = 5\nqeue = "x"\n', 1)
    reason = "which is providers.hooks.timeout_seconds (10) plus a margin of 2"
    assert refusal(text) == [
        'duly.toml: qeue: unknown key; did you mean "queue"?',
        f"duly.toml: lease_seconds: 5 is too short: it must be more than 12, {reason}",
    ]


def test_the_list_of_problems_has_an_end() -> None:
    """Thousands of faults make a list that still fits on a screen or two."""
    complaints = refusal(LEAST + "".join(f"x{n} = 1\n" for n in range(1000)))
    assert (len(complaints), complaints[-1]) == (51, "and 950 more")


# --- the file itself -----------------------------------------------------------------------------


def unreadable(path: Path) -> str:
    """The line with which this file is refused, without its folder."""
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    return str(caught.value).removeprefix(f"{path.parent}/")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A file that was named and is not there is named in the answer."""
    assert unreadable(tmp_path / "x.toml") == "x.toml: no such file; run `duly init`, or give another --config"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A folder is refused, with a hint at the file that may be meant."""
    (tmp_path / "conf").mkdir()
    assert unreadable(tmp_path / "conf").startswith("conf: is a folder; give the file in it")


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused, with the place of the first wrong byte."""
    (tmp_path / "x.toml").write_bytes(b'a = "\xe9"')
    assert unreadable(tmp_path / "x.toml") == "x.toml: not UTF-8 text (byte 5)"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A file over the limit is refused without being read to its end."""
    with (tmp_path / "x.toml").open("wb") as stream:
        stream.truncate(10_000_000_000)
    assert unreadable(tmp_path / "x.toml") == "x.toml: larger than 1 MiB, which no configuration is"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    """A file that may not be read is refused with the reason."""
    (tmp_path / "x.toml").touch(mode=0o000)
    assert unreadable(tmp_path / "x.toml") == "x.toml: cannot be read: permission denied"


def test_without_a_file_the_next_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is neither file nor environment, the answer says how to begin."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^no duly\.toml in this folder: run `duly init`, or give --config$"):
        load(None, {})


def test_the_named_file_is_read_wherever_one_stands(tmp_path: Path) -> None:
    """DULY_CONFIG names the file, --config wins over it, and relative paths start at the file's folder."""
    named, given_file = tmp_path / "a.toml", tmp_path / "b" / "b.toml"
    given_file.parent.mkdir()
    named.write_text(LEAST)
    given_file.write_text(LEAST)
    assert load(None, {"DULY_CONFIG": str(named)}).database.path == tmp_path / "duly.db"
    assert load(given_file, {"DULY_CONFIG": str(named)}).database.path == tmp_path / "b" / "duly.db"


# --- the environment -----------------------------------------------------------------------------


def test_the_environment_may_say_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no file at all, a whole configuration can come from variables, of every type."""
    monkeypatch.chdir(tmp_path)
    config = load(
        None,
        {
            "DULY_DATABASE": "sqlite:///here.db",
            "DULY_LEASE_SECONDS": "90.5",
            "DULY_PROVIDERS__HOOKS__KIND": "webhook",
            "DULY_PROVIDERS__HOOKS__SECRET": '["whsec_a", "env:B"]',
            "DULY_PROVIDERS__HOOKS__MAX_ATTEMPTS": "7",
            "DULY_PROVIDERS__HOOKS__DEDUPLICATES": "yes",
            "DULY_PROVIDERS__HOOKS__KEY_WINDOW": "PT12H",
            "DULY_PROVIDERS__HOOKS__LOOKUP_URL": "https://A.example/{delivery}",
            "DULY_PROVIDERS__HOOKS__SETTLING_SECONDS": "1.5",
            "B": "whsec_b",
        },
    )
    hooks = config.providers["hooks"]
    assert isinstance(hooks, Webhook)
    assert (config.lease_seconds, hooks.max_attempts, hooks.deduplicates) == (90.5, 7, True)
    assert (hooks.key_window, config.database.path) == (timedelta(hours=12), tmp_path / "here.db")
    assert (hooks.lookup_url, hooks.settling_seconds) == ("https://a.example/{delivery}", 1.5)
    assert [secret.reveal() for secret in hooks.secrets] == ["whsec_a", "whsec_b"]
    assert (config.file, config.warnings) == (None, ())


def test_quiet_hours_and_caps_come_from_the_environment() -> None:
    """Lists are JSON or a single text, a cap has its purpose in the name, and each says where it came from."""
    environ = {
        "DULY_ACCOUNTS__LOFTS__QUIET_HOURS": '["21:00-08:00", "SUN 00:00-24:00"]',
        "DULY_ACCOUNTS__LOFTS__QUIET_PURPOSES": "marketing",
        "DULY_ACCOUNTS__LOFTS__CAPS__MARKETING": "3/PT24H",
        "DULY_ACCOUNTS__OTHER__ZONE": "UTC",
        "DULY_ACCOUNTS__OTHER__QUIET_REGION": "us",
    }
    config = read(LOFTS, environ)
    shown = {key: (value, origin) for key, value, origin in lines(config)}
    assert shown["accounts.lofts.quiet_hours"][0] == '["21:00-08:00", "sun 00:00-24:00"]'
    assert shown["accounts.lofts.quiet_purposes"][0] == '["marketing"]'
    name = "DULY_ACCOUNTS__LOFTS__CAPS__MARKETING"
    assert shown["accounts.lofts.caps.marketing"] == ('"3/P1D"', f"environment: {name}")
    assert shown["accounts.other.quiet_region"][0] == '"us"'
    assert shown["accounts.other.quiet_hours"] == ("[]", "default")


def test_the_environment_takes_quiet_hours_away() -> None:
    """An empty list from the environment wins over the hours of the file."""
    text = LOFTS + 'quiet_hours = ["21:00-08:00"]'
    assert read(text).accounts["lofts"].windows != ()
    assert read(text, {"DULY_ACCOUNTS__LOFTS__QUIET_HOURS": "[]"}).accounts["lofts"].windows == ()


def test_the_environment_wins() -> None:
    """A variable wins over the file, finds names with dashes, and does not care about case."""
    text = HOOKS.replace("hooks", "my-hooks") + "rate_per_second = 200"
    config = read(text, {"DULY_PROVIDERS__MY_HOOKS__RATE_PER_SECOND": "50", "duly_lease_seconds": "61"})
    assert (config.providers["my-hooks"].rate_per_second, config.lease_seconds) == (50.0, 61.0)


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"DULY_LEASE_SECNDS": "9"}, "DULY_LEASE_SECNDS: unknown key; did you mean DULY_LEASE_SECONDS?"),
        (
            {"DULY_PROVIDERS__HOOKS__SECRT": "9"},
            "DULY_PROVIDERS__HOOKS__SECRT: unknown key; did you mean DULY_PROVIDERS__HOOKS__SECRET?",
        ),
        (
            {"DULY_PROVIDRS__HOOKS__SECRET": "9"},
            "DULY_PROVIDRS__HOOKS__SECRET: unknown key; did you mean DULY_PROVIDERS__HOOKS__SECRET?",
        ),
        ({"DULY_LEASE_SECONDS": "soon"}, "DULY_LEASE_SECONDS: expected a number, got text"),
        ({"DULY_LEASE_SECONDS": ""}, "DULY_LEASE_SECONDS: expected a number, got text"),
        ({"DULY_LEASE_SECONDS": "nan"}, "DULY_LEASE_SECONDS: expected a finite number"),
        ({"DULY_LEASE_SECONDS__X": "1"}, "DULY_LEASE_SECONDS__X: expected a number, got a table"),
        ({"DULY_PROVIDERS": "x"}, "DULY_PROVIDERS: expected a table, got text"),
        ({"DULY_DATABASE": ""}, 'DULY_DATABASE: empty; write for example "sqlite:///duly.db"'),
        (
            {"DULY_LEASE_SECONDS": "70", "duly_lease_seconds": "80"},
            "duly_lease_seconds: DULY_LEASE_SECONDS gives the same key; keep one of them",
        ),
        ({"DULY_PROVIDERS__HOOKS__DEDUPLICATES": "maybe"}, "DULY_PROVIDERS__HOOKS__DEDUPLICATES: expected true or"),
        ({"DULY_PROVIDERS__NEW__KIND": "smtp"}, "duly.toml: providers.new.url: missing"),
        ({"DULY_": "x"}, "DULY_: unknown key"),
        (
            {"DULY_ACCOUNTS__A__QUIET_HOURS": "[" * 100_000},
            "DULY_ACCOUNTS__A__QUIET_HOURS: expected a list of texts, such as",
        ),
        ({"DULY_ACCOUNTS__A__CAPS__SERVICE": "3"}, "DULY_ACCOUNTS__A__CAPS__SERVICE: it is not a cap; write one like"),
        ({"DULY_ACCOUNTS__A__CAPS__B__C": "3"}, 'DULY_ACCOUNTS__A__CAPS__B__C: expected text, such as "3/P1D"'),
    ],
)
def test_a_wrong_variable_is_refused_in_one_line(environ: dict[str, str], line: str) -> None:
    """The line names the variable as it was written, and the one that may be meant."""
    assert refusal(HOOKS, environ)[0].startswith(line)


def test_a_name_that_may_mean_two_is_refused() -> None:
    """A variable that two names of the file answer to is not guessed at."""
    text = LEAST + '[templates.a-b-c]\ntext = "x"\n[templates.a-b_c]\ntext = "y"\n'
    complaints = refusal(text, {"DULY_TEMPLATES__A_B_C__TEXT": "z"})
    assert complaints[0] == "DULY_TEMPLATES__A_B_C__TEXT: may mean a-b-c or a-b_c; rename one of them"


def test_variables_that_are_no_keys_are_left_alone() -> None:
    """The file's place, debugging, tests, and variables that a secret refers to are not keys."""
    environ = {
        "DULY_CONFIG": "x",
        "DULY_DEBUG": "1",
        "DULY_TEST_POSTGRES": "x",
        "DULY_HOOK_SECRET": "whsec_x",
        "DULY_NEXT_SECRET": "whsec_y",
        "DULY_ENDPOINTS__A__URL": "https://a.example",
        "DULY_ENDPOINTS__A__SECRET": "env:DULY_NEXT_SECRET",
    }
    config = read(HOOKS.replace("env:S", "env:DULY_HOOK_SECRET"), environ)
    hooks = config.providers["hooks"]
    assert isinstance(hooks, Webhook)
    assert hooks.secrets[0].reveal() == "whsec_x"


# --- secrets -------------------------------------------------------------------------------------


def secret(reference: str, folder: Path, environ: Mapping[str, str] | None = None) -> Secret:
    """The secret of the key `providers.hooks.secret`."""
    return Secret("providers.hooks.secret", reference, folder, environ or {})


def test_secrets_are_looked_up_late(tmp_path: Path) -> None:
    """A variable, a file beside the configuration and a literal give their text when they are asked for it."""
    (tmp_path / "s").write_text("whsec_file\n")
    assert secret("env:S", tmp_path, {"S": "whsec_env"}).reveal() == "whsec_env"
    assert secret("file:s", tmp_path).reveal() == "whsec_file"
    assert secret(f"file:{tmp_path}/s", Path("/")).reveal() == "whsec_file"
    assert secret("whsec_here", tmp_path).reveal() == "whsec_here"


@pytest.mark.parametrize(
    ("reference", "line"),
    [
        ("env:NOT_SET", "providers.hooks.secret: the environment variable NOT_SET is not set"),
        ("env:EMPTY", "providers.hooks.secret: the environment variable EMPTY is empty"),
        ("file:none", "providers.hooks.secret: the file none cannot be read: no such file or directory"),
        ("file:.", "providers.hooks.secret: the file . cannot be read: is a directory"),
        ("file:empty", "providers.hooks.secret: the file empty is empty"),
        ("file:latin", "providers.hooks.secret: the file latin is not UTF-8 text"),
        ("file:huge", "providers.hooks.secret: the file huge is larger than 65536 bytes"),
    ],
)
def test_a_secret_that_is_not_there_is_named(reference: str, line: str, tmp_path: Path) -> None:
    """A missing secret names its key and its variable or file."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "huge").write_bytes(b"x" * 70_000)
    with pytest.raises(ConfigError) as caught:
        secret(reference, tmp_path, {"EMPTY": ""}).reveal()
    assert str(caught.value) == line


def test_a_literal_is_taken_with_a_warning() -> None:
    """A secret in the file works, and the warning names its key and not the secret."""
    config = read(HOOKS.replace("env:S", "whsec_topsecret"))
    assert config.warnings == (
        'duly.toml: providers.hooks.secret: the secret stands in the file; write "env:NAME" or "file:PATH" instead',
    )


def test_a_password_in_the_clear_is_warned_of() -> None:
    """A mail password over an unprotected connection to another machine is warned of; over loopback it is not."""
    there = MAIL.replace("localhost", "u@mail.example.com") + 'password = "env:P"'
    here = MAIL.replace("localhost", "u@localhost") + 'password = "env:P"'
    assert [re.sub(";.*", "", text) for text in read(there).warnings] == [
        "duly.toml: providers.mail.url: smtp:// sends the password in the clear"
    ]
    assert read(here).warnings == ()


SECRETS: Final = ("topsecret", "dbsecret", "sslsecret")
WITH_SECRETS: Final = """
database = "postgresql://me:dbsecret@db.example/x?sslmode=require&sslpassword=sslsecret"
[providers.hooks]
kind = "webhook"
secret = ["whsec_topsecret", "env:NEXT"]
[providers.mail]
kind = "smtp"
url = "smtp+starttls://mail.example.com"
username = "me"
password = "topsecret"
from = "a@example.com"
"""


def test_purposes_that_are_near_a_known_one_are_told() -> None:
    """Caps, quiet hours and links for a misspelt purpose are of nothing that is sent; each is told with its key."""
    config = read(
        """
        database = "sqlite:///x.db"
        [accounts.acme]
        quiet_purposes = ["Marketing", "billing", "service"]
        caps = { marketng = "3/P1D", marketing = "3/P1D" }
        [unsubscribe]
        url = "https://r.example.com/u"
        secret = "env:LINKS"
        purposes = ["newsletter", "marketting"]
        """,
        {"LINKS": "x" * 32},
    )
    assert list(config.warnings) == [
        f'duly.toml: {place}: purpose "{word}" is near one that is known; did you mean "marketing"?'
        for place, word in (
            ("accounts.acme.caps", "marketng"),
            ("accounts.acme.quiet_purposes", "Marketing"),
            ("unsubscribe.purposes", "marketting"),
        )
    ]


def test_masked_values_hold_no_secret() -> None:
    """No way to print a configuration prints a secret, while references are shown."""
    config = read(WITH_SECRETS)
    printed = f"{config!r} {config} {document(config)} {list(lines(config))} {config.warnings} {config.origins}"
    printed += config.model_dump_json() + repr(config.database) + str(config.providers)
    assert not [text for text in SECRETS if text in printed]
    assert document(config)["providers"]["hooks"]["secret"] == ["***", "env:NEXT"]
    assert document(config)["database"] == "postgresql://me:***@db.example/x?sslmode=require&sslpassword=***"


@pytest.mark.parametrize(
    "text",
    [
        WITH_SECRETS.replace("secret =", "secrt ="),
        WITH_SECRETS.replace("password =", "passwrd ="),
        WITH_SECRETS.replace("postgresql://", "postgresq://"),
        WITH_SECRETS.replace("me:dbsecret", "me:db/dbsecret"),
        WITH_SECRETS.replace("me:dbsecret", "me:db@dbsecret"),
        WITH_SECRETS.replace("db.example/x", "db.example/x#"),
        WITH_SECRETS.replace("smtp+starttls://", "smtp://me:topsecret@"),
        WITH_SECRETS.replace("[providers.hooks]", 'queue = "amqp://me:topsecret@h"\n[providers.hooks]'),
        WITH_SECRETS.replace('kind = "webhook"', 'kind = "topsecret"'),
        WITH_SECRETS.replace('username = "me"', 'rate_per_second = "topsecret"'),
        WITH_SECRETS.replace('"topsecret"\n', '"topsecret\n'),
    ],
)
def test_no_refusal_quotes_a_secret(text: str) -> None:
    """Whatever is wrong, the lines that say so hold no secret."""
    assert not [line for line in refusal(text) for hidden in SECRETS if hidden in line]


# --- URLs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url", "masked"),
    [
        ("sqlite:///duly.db", "sqlite:////srv/duly.db", "sqlite:////srv/duly.db"),
        ("sqlite:////var/duly.db", "sqlite:////var/duly.db", "sqlite:////var/duly.db"),
        ("postgresql://h/d", "postgresql://h/d", "postgresql://h/d"),
        ("postgres://u:p%40q@h:5433/d", "postgresql://u:p%40q@h:5433/d", "postgresql://u:***@h:5433/d"),
        ("postgresql://", "postgresql://", "postgresql://"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg"),
        ("postgresql://u@a:1,[::1]:2/d", "postgresql://u@a:1,[::1]:2/d", "postgresql://u@a:1,[::1]:2/d"),
        ("postgresql://h/d?p%61ssword=x", "postgresql://h/d?p%61ssword=x", "postgresql://h/d?p%61ssword=***"),
        ("postgresql://u:p:q@h?a=b@c", "postgresql://u:p:q@h?a=b@c", "postgresql://u:***@h?a=b@c"),
    ],
)
def test_database_urls_are_read(text: str, url: str, masked: str) -> None:
    """A database URL is made absolute, and masked where it is printed."""
    database = parse_database(text, Path("/srv"))
    assert (database.reveal(), str(database), database.has_password) == (url, masked, url != masked)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("duly.db", "not a database URL"),
        ("mysql://h/d", "not a database URL"),
        ("sqlite://duly.db", "an SQLite file takes three slashes"),
        ("sqlite:duly.db", "not a database URL"),
        ("sqlite:///", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///folder/", "name a file"),
        ("sqlite:///x.db?mode=ro", "an SQLite URL takes no options"),
        ("sqlite+aiosqlite:///x.db", 'no driver is named here; write "sqlite://..."'),
        ("postgresql+asyncpg://h/d", 'no driver is named here; write "postgresql://..."'),
        ("postgresql://h:port/d", "the host or port cannot be read"),
        ("postgresql://u:p@q@h/d", "the host or port cannot be read"),
        ("postgresql://u:p#q@h/d", "the host or port cannot be read"),
        ("postgresql://h/a b", "a URL holds no blanks"),
        ("postgresql://h/a\x00b", "a URL holds no blanks"),
    ],
)
def test_wrong_database_urls_are_refused(text: str, line: str) -> None:
    """A URL that a driver would read differently is refused, with what to write."""
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        parse_database(text, Path("/srv"))


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("smtp://h", SmtpServer("none", "h", 25, None)),
        ("smtps://h", SmtpServer("tls", "h", 465, None)),
        ("smtp+starttls://me%40x@h", SmtpServer("starttls", "h", 587, "me@x")),
        ("smtp://[::1]:2525/", SmtpServer("none", "::1", 2525, None)),
    ],
)
def test_mail_urls_are_read(text: str, server: SmtpServer) -> None:
    """The scheme chooses the protection and the usual port (RFC 5321, 6409, 8314)."""
    assert parse_smtp(text) == server


@pytest.mark.parametrize(
    "text", ["h", "http://h", "smtp://", "smtp://u:p@h", "smtp://h/x", "smtp://h:x", "smtp://h:0", "smtp://h?a", "s p"]
)
def test_wrong_mail_urls_are_refused(text: str) -> None:
    """A mail URL with anything but user, host and port is refused."""
    with pytest.raises(ValueError, match=r"write|blanks"):
        parse_smtp(text)


@given(st.text(max_size=60), st.sampled_from(["", "postgresql://", "postgres://u:", "sqlite:///"]))
def test_any_text_as_a_database_is_read_or_refused(text: str, scheme: str) -> None:
    """No text makes the database's parser fail in any other way than it says."""
    try:
        assert parse_database(scheme + text, Path("/srv")).reveal().startswith(("sqlite:////", "postgresql://"))
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


@given(st.text(alphabet=st.characters(exclude_characters="@/?#", categories=["L", "N", "P", "S"]), min_size=1))
def test_a_password_is_masked_whatever_it_is(password: str) -> None:
    """Whatever a password is made of, if the URL is taken, its printed form does not hold it."""
    database = parse_database(f"postgresql://someone:<{password}>@db/x", Path())
    assert str(database) == "postgresql://someone:***@db/x"


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused(raw: bytes) -> None:
    """No bytes make the loader fail with anything but an error of ours."""
    text = LEAST + raw.decode("utf-8", "ignore")
    try:
        assert read(text).queue == "database"
    except DulyError as error:
        assert all(line.isprintable() for line in str(error).splitlines())  # noqa: PT017


# --- where values came from ----------------------------------------------------------------------


def test_every_value_says_where_it_came_from() -> None:
    """The view tells file, environment and default apart, for every effective value."""
    config = read(HOOKS, {"DULY_LEASE_SECONDS": "70"})
    origins = {key: (value, origin) for key, value, origin in lines(config)}
    assert origins["lease_seconds"] == ("70.0", "environment: DULY_LEASE_SECONDS")
    assert origins["providers.hooks.kind"] == ('"webhook"', "file")
    assert origins["providers.hooks.key_window"] == ('"P1D"', "default")
    assert origins["namespace"] == ("(not set)", "default")
