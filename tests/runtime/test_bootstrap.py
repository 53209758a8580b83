"""Bootstrap: whatever a configuration means is found out before anything runs, and told in one clear line."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.content import Template
from duly.core.caps import Cap
from duly.core.keys import show
from duly.core.model import HoldPolicy, LookKind, OnDoubt
from duly.core.quiet_hours import read_windows
from duly.core.unsubscribe import Links
from duly.errors import ConfigError, DulyError, SchemaError
from duly.ports import Filters, Request
from duly.providers.smtp import SmtpProvider
from duly.runtime import bootstrap
from duly.runtime.config import Config, parse
from duly.runtime.worker import Plant
from duly.testing.builders import NAMESPACE
from tests.flows.scene import SECRET
from tests.providers.conformance import DOUBTFUL, NOW
from tests.stores.ledgers import create_sqlite

OTHER_SECRET = "whsec_" + "REVG" * 11
A = "https://a.example/in"
B = "https://b.example/in"

HOOKS = f"""
[providers.hooks]
kind = "webhook"
secret = "{SECRET}"
timeout_seconds = 7
rate_per_second = 50
deduplicates = true
key_window = "PT1H"
max_attempts = 3
concurrency = 9
"""
MAIL = """
[providers.mail]
kind = "smtp"
url = "smtp://ana@localhost:2525"
password = "env:MAIL_PASSWORD"
from = "Harbour <us@example.com>"
"""
ENDPOINT = f"""
[endpoints.acme]
url = "https://A.example:443/in"
secret = "{OTHER_SECRET}"
rate_per_second = 2
deduplicates = false
[endpoints.plain]
url = "{B}"
"""


def config_of(folder: Path, *parts: str, environ: Mapping[str, str] | None = None) -> Config:
    """A configuration over the ledger in a folder."""
    text = 'database = "sqlite:///ledger.db"\n' + "".join(parts)
    return parse(text, folder / "duly.toml", environ or {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty ledger."""
    create_sqlite(tmp_path / "ledger.db")
    return tmp_path


def opened(config: Config) -> Plant:
    """The plant, after it was opened and closed again."""

    async def open_and_close() -> Plant:
        async with bootstrap.open_plant(config, freeze_garbage=False) as plant:
            return plant

    return asyncio.run(open_and_close())


def refusal(config: Config, kind: type[DulyError]) -> str:
    """The one line with which a plant is refused."""
    with pytest.raises(kind) as caught:
        opened(config)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


# --- what is built -------------------------------------------------------------------------------


def test_a_plant_is_what_the_configuration_says(folder: Path) -> None:
    """Providers, limits, policies and times are the configured ones, and the namespace is the ledger's."""
    account = '[accounts.bold]\non_doubt = "resend"\n'
    config = config_of(folder, "lease_seconds = 40\n", HOOKS, MAIL, account, environ={"MAIL_PASSWORD": "secret"})
    plant = opened(config)
    assert plant.namespace == NAMESPACE
    assert {name: one.channel for name, one in plant.providers.items()} == {"hooks": "webhook", "mail": "email"}
    assert [plant.providers["hooks"].timeout_seconds, plant.lease_seconds] == [7.0, 40.0]
    assert [plant.limits[name].attempts_max for name in ("hooks", "mail")] == [3, 100]
    assert [plant.transports[name].room() for name in ("hooks", "mail")] == [9, 20]
    assert [plant.policies.on_doubt(name) for name in ("bold", "unheard-of")] == [OnDoubt.RESEND, OnDoubt.HOLD]
    assert bootstrap.channels(config) == {"webhook": "hooks", "email": "mail"}


def test_an_account_says_how_its_holds_end(folder: Path) -> None:
    """An account's own terms where it has some, else the defaults that the documentation states."""
    account = '[accounts.bold]\nhold_alarm = "PT1H"\nhold_for = "P2D"\nhold_then = "resend"\n'
    policies = opened(config_of(folder, HOOKS, account)).policies
    assert policies.hold("bold") == HoldPolicy(timedelta(hours=1), timedelta(days=2), OnDoubt.RESEND)
    assert policies.hold("unheard-of") == HoldPolicy(timedelta(hours=4), timedelta(days=7), OnDoubt.CLOSE)


def test_an_account_says_when_it_is_quiet(folder: Path) -> None:
    """Its own hours or a region's, for the purposes that it names, or for every purpose but security."""
    accounts = """
        [accounts.own]
        zone = "Europe/Berlin"
        quiet_hours = ["21:00-08:00", "sun 00:00-24:00"]
        quiet_purposes = ["marketing"]
        [accounts.region]
        zone = "America/New_York"
        quiet_region = "us"
    """
    policies = opened(config_of(folder, HOOKS, accounts)).policies
    night, sunday = read_windows(["21:00-08:00", "sun 00:00-24:00"])
    assert [policies.quiet("own", purpose) for purpose in ("marketing", "service")] == [(night, sunday), ()]
    assert [policies.quiet("region", purpose) for purpose in ("visit", "service", "security")] == [
        (night,),
        (night,),
        (),
    ]
    assert policies.quiet("unheard-of", "marketing") == ()


def test_an_account_says_how_much_is_enough(folder: Path) -> None:
    """A cap belongs to one account and one purpose; everybody else has none."""
    account = '[accounts.shy]\ncaps = { marketing = "3/P1D", service = "10/P1W" }\n'
    policies = opened(config_of(folder, HOOKS, account)).policies
    assert policies.cap("shy", "marketing") == Cap(3, timedelta(days=1))
    assert policies.cap("shy", "service") == Cap(10, timedelta(weeks=1))
    assert [policies.cap("shy", "security"), policies.cap("unheard-of", "marketing")] == [None, None]


def test_other_hours_or_caps_are_told_from_the_same(folder: Path) -> None:
    """What stands for them is the same for the same configuration, and differs where hours, caps or a zone do."""
    one = '[accounts.acme]\nzone = "UTC"\nquiet_hours = ["mon,wed 21:00-08:00"]\n'
    same, others = (
        one + 'on_doubt = "close"',
        [
            "",
            one + 'quiet_purposes = ["marketing"]',
            one + 'caps = { marketing = "3/P1D" }',
            one.replace("21:", "22:"),
            one.replace("UTC", "Europe/Berlin"),
        ],
    )
    marks = [bootstrap.chosen_hours(config_of(folder, part)) for part in (one, same, *others)]
    assert marks[0] == marks[1]
    assert len(set(marks)) == 6


def test_a_template_is_what_the_configuration_says(folder: Path) -> None:
    """Its parts, and what its text may cost as SMS."""
    text = '[templates.note]\nsubject = "s"\ntext = "t"\nhtml = "h"\nsms_segments_max = 3\nsms_to_gsm = true\n'
    source = bootstrap.templates(config_of(folder, text)).source("note")
    assert source == Template("note", "s", "t", "h", sms_segments_max=3, sms_to_gsm=True)


UNSUBSCRIBE = """
[unsubscribe]
url = "https://r.example.com/u"
secret = ["env:NEW", "a secret of thirty-two bytes ...."]
purposes = ["news"]
"""


def test_mail_can_be_unsubscribed_from(folder: Path) -> None:
    """Where links are configured, the newest secret makes them under the ledger's namespace, and all can be read by."""
    environ = {"NEW": "n" * 32, "MAIL_PASSWORD": "secret"}
    config = config_of(folder, MAIL, UNSUBSCRIBE, environ=environ)
    mail = opened(config).providers["mail"]
    assert isinstance(mail, SmtpProvider)
    assert mail.links == Links("https://r.example.com/u", b"n" * 32, frozenset({"news"}), NAMESPACE)
    assert bootstrap.unsubscribe_secrets(config) == [b"n" * 32, b"a secret of thirty-two bytes ...."]


def test_without_a_table_nothing_can_be_unsubscribed_from(folder: Path) -> None:
    """Mail has no links, and no token can be read."""
    config = config_of(folder, MAIL, environ={"MAIL_PASSWORD": "secret"})
    mail = opened(config).providers["mail"]
    assert isinstance(mail, SmtpProvider)
    assert mail.links is None
    assert bootstrap.unsubscribe_secrets(config) == []


def test_a_secret_that_can_be_guessed_is_refused(folder: Path) -> None:
    """The line names the key and the least length, and not the secret."""
    text = refusal(
        config_of(folder, MAIL, UNSUBSCRIBE, environ={"NEW": "short", "MAIL_PASSWORD": "secret"}), ConfigError
    )
    assert text == "unsubscribe.secret[0]: it has 5 bytes, and 16 are the least; make a new one"


def test_an_endpoint_has_its_own_terms_and_else_its_providers(folder: Path) -> None:
    """An endpoint goes by its URL as addresses are written, whatever the configuration spells."""
    hooks = opened(config_of(folder, HOOKS, ENDPOINT)).providers["hooks"]
    assert [hooks.rate(url) for url in (A, B, "https://c.example/")] == [2.0, 50.0, 50.0]
    kept = [hooks.capabilities(url).keyed_for is not None for url in (A, B, "https://c.example/")]
    assert kept == [False, True, True]


def test_who_can_be_asked_is_asked_where_it_says(folder: Path) -> None:
    """An endpoint's own place to ask and settling time are its own, and the provider's hold for the others."""
    asked = 'lookup_url = "https://hooks.example/{delivery}"\nsettling_seconds = 7\n'
    endpoints = f"""
[endpoints.acme]
url = "{A}"
lookup_url = "https://a.example/deliveries?id={{delivery}}"
settling_seconds = 0.5
[endpoints.deaf]
url = "{B}"
lookup_url = ""
"""
    hooks = opened(config_of(folder, HOOKS + asked, endpoints)).providers["hooks"]
    promises = [hooks.capabilities(url) for url in (A, B, "https://c.example/")]
    assert [one.settling for one in promises] == [timedelta(seconds=0.5), None, timedelta(seconds=7)]
    assert [one.lookup_by_key for one in promises] == [True, False, True]
    doubtful = DOUBTFUL._replace(address=A)
    assert hooks.look(doubtful, LookKind.KEY, NOW).url == f"https://a.example/deliveries?id={show(DOUBTFUL.id)}"


def test_a_plant_that_is_closed_sends_nothing(folder: Path) -> None:
    """Its transports and its store are given back with it."""

    async def send_afterwards() -> list[str | None]:
        async with bootstrap.open_plant(config_of(folder, HOOKS), freeze_garbage=False) as plant:
            transport = plant.transports["hooks"]
        content: Any = None
        await transport.start([Request(1, content, float("inf"))])
        with pytest.raises(DulyError, match="closed"):
            await plant.store.namespace()
        return [one.answer.error for one in await transport.completed(1, 1.0)]

    assert asyncio.run(send_afterwards()) == ["connect"]


def test_a_worker_freezes_its_garbage(folder: Path) -> None:
    """What was made at the start is not looked through again and again."""

    async def thresholds() -> tuple[int, int, int]:
        async with bootstrap.open_plant(config_of(folder, HOOKS)):
            return gc.get_threshold()

    before = gc.get_threshold()
    try:
        assert asyncio.run(thresholds()) == bootstrap.GC_THRESHOLDS
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_views_are_of_the_same_ledger(folder: Path) -> None:
    """Reading needs no provider."""

    async def listed() -> list[dict[str, Any]]:
        async with bootstrap.open_views(config_of(folder)) as views:
            return await views.deliveries(Filters())

    assert asyncio.run(listed()) == []


def test_a_workers_name_is_never_used_twice() -> None:
    """Host and process may come again; the incarnation does not."""
    assert len({bootstrap.worker_name() for _ in range(100)}) == 100


# --- what is refused -----------------------------------------------------------------------------


def test_without_a_provider_there_is_nothing_to_work_with(folder: Path) -> None:
    """The line says what to add, and where."""
    assert "[providers.NAME]" in refusal(config_of(folder), ConfigError)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        ("not-a-signing-secret", "whsec_"),
        ("whsec_dG9vIHNob3J0", "24 to 64 bytes"),
        ("env:HOOK_SECRET", "HOOK_SECRET"),
        ("file:nowhere.txt", "nowhere.txt"),
    ],
)
def test_a_bad_secret_is_named_and_not_shown(folder: Path, secret: str, says: str) -> None:
    """The line names the key and what is wrong with it, and never the secret."""
    text = refusal(config_of(folder, HOOKS.replace(SECRET, secret)), ConfigError)
    assert "providers.hooks.secret" in text
    assert says in text
    assert "not-a-signing-secret" not in text
    assert "dG9vIHNob3J0" not in text


def test_a_bad_secret_of_an_endpoint_is_named(folder: Path) -> None:
    """The endpoint's key, not its provider's."""
    text = refusal(config_of(folder, HOOKS, ENDPOINT.replace(OTHER_SECRET, "whsec_!")), ConfigError)
    assert "endpoints.acme.secret" in text


def test_a_missing_password_is_named(folder: Path) -> None:
    """A mail server's password is looked up before anything runs."""
    text = refusal(config_of(folder, MAIL), ConfigError)
    assert "providers.mail.password" in text
    assert "MAIL_PASSWORD" in text


def test_a_template_that_does_not_compile_is_named(folder: Path) -> None:
    """Template and line."""
    text = refusal(config_of(folder, HOOKS, '[templates.note]\ntext = "{{ data.unit"\n'), ConfigError)
    assert "note" in text


def test_another_installations_database_is_refused(folder: Path) -> None:
    """Under another namespace the same reminders would be sent again."""
    text = refusal(config_of(folder, 'namespace = "another"\n', HOOKS), SchemaError)
    assert "namespace" in text
    assert "another installation" in text


def test_the_own_namespace_is_taken(folder: Path) -> None:
    """Where the configuration names the namespace, it is the ledger's."""
    assert opened(config_of(folder, f'namespace = "{NAMESPACE}"\n', HOOKS)).namespace == NAMESPACE


def test_a_database_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The line says how to make one."""
    assert "duly migrate apply" in refusal(config_of(tmp_path, HOOKS), SchemaError)


WITHOUT_DRIVER = """
import asyncio, pathlib, sys
sys.modules["psycopg"] = None
from duly.errors import ConfigError
from duly.runtime import bootstrap
from duly.runtime.config import parse

async def main():
    config = parse('database = "postgresql://ana@127.0.0.1:9/duly"', pathlib.Path("duly.toml"), {})
    async with bootstrap.open_store(config):
        pass

try:
    asyncio.run(main())
except ConfigError as error:
    print(error)
"""


def test_a_driver_that_is_not_installed_is_named() -> None:
    """PostgreSQL's driver is an extra, and the line says which."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout, run.stderr) == ("PostgreSQL needs its driver: pip install 'duly[postgres]'\n", "")
