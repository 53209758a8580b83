"""`duly consent`, `recipients`, `accounts` and `templates`: what they record, what they say, and what they refuse."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.cli.surface import operator
from tests.flows.scene import SECRET
from tests.stores.ledgers import raw

pytestmark = pytest.mark.usefixtures("folder")

CONFIG = f"""
database = "sqlite:///duly.db"

[providers.hooks]
kind = "webhook"
secret = "{SECRET}"

[accounts.acme]
zone = "Europe/Berlin"

[templates.note]
subject = "A note"
text = "Hello"
"""
ANA = "ana@example.com"


def duly(*arguments: str, code: int = 0) -> Result:
    """Run the program in this process."""
    answer = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert answer.exit_code == code, answer.output
    return answer


def told(*arguments: str) -> Any:
    """What the program says with `--json`."""
    return json.loads(duly(*arguments, "--json").stdout)


def complaint(*arguments: str) -> str:
    """The one line with which a command refuses."""
    answer = duly(*arguments, code=1)
    assert answer.stdout == ""
    return answer.stderr.removeprefix("duly: ").rstrip("\n")


def consent(word: str, *more: str, why: str = "he asked to") -> list[str]:
    """A command about Ana's address in account acme."""
    return ["consent", word, ANA, "--account", "acme", *(["--why", why] if why else []), *more]


def write(name: str, *lines: str) -> str:
    """A file in the working directory."""
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def lines(*arguments: str) -> list[str]:
    """The lines of what a command writes."""
    return duly(*arguments).stdout.splitlines()


def ledger(sql: str) -> list[Any]:
    """What stands in the database."""
    with closing(sqlite3.connect("duly.db")) as database:
        return database.execute(sql).fetchall()


# --- one address ---------------------------------------------------------------------------------


def test_an_opt_out_is_recorded_and_shown() -> None:
    """It silences its purpose; what was said is shown with who said it and why, and never the address."""
    done = told(*consent("opt-out", "--purpose", "marketing"))
    assert {name: done[name] for name in ("account", "channel", "kind", "purpose", "result")} == {
        "account": "acme",
        "channel": "email",
        "kind": "opt_out",
        "purpose": "marketing",
        "result": "recorded",
    }
    shown = told(*consent("show", why=""))
    assert shown["purposes"] == {
        "service": None,
        "marketing": "opted_out_of_marketing",
        "security": None,
        "any other": None,
    }
    (entry,) = shown["standing"]
    assert (entry["reason"], entry["actor"], entry["source"]) == ("he asked to", operator(), f"operator {operator()}")
    assert [one["kind"] for one in shown["history"]] == ["opt_out"]
    text = duly(*consent("show", why="")).stdout
    assert "marketing: not sent, because the recipient opted out of marketing" in text
    assert ANA not in text


@pytest.mark.parametrize(
    ("address", "channel", "same"),
    [
        ("ana@EXAMPLE.com", "email", "ana@example.com"),
        ("ana@bücher.example", "email", "ana@xn--bcher-kva.example"),
        ("+1 (415) 555-0100", "sms", "+14155550100"),
        ("HTTPS://App.example.com:443/in", "webhook", "https://app.example.com/in"),
    ],
)
def test_an_address_is_known_however_it_is_written(address: str, channel: str, same: str) -> None:
    """The channel is told from the address, which is normalised as everywhere."""
    done = told("consent", "opt-out", address, "--account", "acme", "--why", "x")
    shown = told("consent", "show", same, "--account", "acme", "--channel", channel)
    assert (done["channel"], done["contact"]) == (channel, shown["contact"])
    assert shown["purposes"]["service"] == "opted_out"


def test_all_purposes_spare_security_unless_it_is_said() -> None:
    """An opt-out of all leaves security; with --even-security it leaves nothing, as a suppression does by itself."""
    assert told(*consent("opt-out"))["purpose"] == "all"
    assert told(*consent("show", why=""))["purposes"]["security"] is None
    assert told(*consent("opt-out", "--even-security"))["purpose"] == "all+security"
    assert told(*consent("show", why=""))["purposes"]["security"] == "opted_out"
    assert told(*consent("opt-in", "--even-security"))["result"] == "recorded"
    assert told(*consent("suppress"))["purpose"] == "all+security"
    assert told(*consent("show", why=""))["purposes"]["security"] == "suppressed"


def test_an_opt_in_does_not_end_a_suppression() -> None:
    """It is refused with what to do; a lift ends the suppression, and only once."""
    duly(*consent("suppress"))
    assert complaint(*consent("opt-in")).endswith("see `consent show`, then `consent lift` it")
    assert told(*consent("lift"))["result"] == "recorded"
    assert told(*consent("lift"))["result"] == "already"
    assert told(*consent("opt-in"))["result"] == "recorded"


@pytest.mark.parametrize(
    ("before", "opened", "still"),
    [
        (
            [("opt-out",)],
            ("opt-in", "--purpose", "service"),
            "service is still silenced, by the opt_out of all; `duly consent opt-in` without --purpose ends that",
        ),
        (
            [("opt-out", "--even-security")],
            ("opt-in",),
            "THESE are still silenced, by the opt_out of all+security; WAY --even-security ends that",
        ),
        (
            [("opt-out", "--purpose", "marketing"), ("opt-out",)],
            ("opt-in",),
            "marketing is still silenced, by the opt_out of marketing; WAY --purpose marketing ends that",
        ),
        (
            [("opt-out",), ("suppress", "--purpose", "service")],
            ("lift", "--purpose", "service"),
            "service is still silenced, by the opt_out of all; `duly consent opt-in` without --purpose ends that",
        ),
        (
            [("opt-out",), ("suppress", "--purpose", "service")],
            ("opt-in",),
            "service is still silenced, by the manual of service; `duly consent lift` ends that",
        ),
        ([("opt-out", "--purpose", "marketing")], ("opt-in", "--purpose", "service"), None),
        ([("opt-out",)], ("opt-in",), None),
    ],
)
def test_what_stays_silenced_is_told(before: list[tuple[str, ...]], opened: tuple[str, ...], still: str | None) -> None:
    """Who opens what another statement keeps shut hears what that is, and the way out."""
    for word, *more in before:
        duly(*consent(word, *more))
    first, *rest = duly(*consent(*opened)).stdout.splitlines()
    assert first.endswith(": recorded")
    assert rest == (
        []
        if still is None
        else [still.replace("WAY", "`duly consent opt-in` with").replace("THESE", "service, marketing, any other")]
    )


def test_what_stays_silenced_is_in_the_document() -> None:
    """For scripts: the purposes, and the kind and scope of what silences them; an opt-out silences nothing still."""
    assert told(*consent("opt-out"))["still_silenced"] == []
    still = told(*consent("opt-in", "--purpose", "service"))["still_silenced"]
    assert still == [{"purposes": ["service"], "kind": "opt_out", "scope": "all"}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["opt-out", "nonsense", "--account", "acme"], "address: is no e-mail address"),
        (["opt-out", "a@", "--account", "acme"], "address: is not an e-mail address"),
        (["opt-out", ANA, "--account", "acme", "--channel", "pigeon"], "--channel: it is email, sms, webhook"),
        (["opt-out", ANA, "--account", "acme", "--purpose", "x" * 51], "purpose: is longer than 50"),
        (
            ["opt-out", ANA, "--account", "acme", "--purpose", "Marketing"],
            'only by case from one that is known; did you mean "marketing"?',
        ),
        (
            ["opt-out", ANA, "--account", "acme", "--purpose", "ALL"],
            'only by case from one that is known; did you mean "all"?',
        ),
        (["opt-out", ANA, "--account", "acme", "--purpose", "a\nb"], "purpose: holds a control character"),
        (["opt-out", ANA, "--account", "acme", "--purpose", "marketing", "--even-security"], "the hard stop is of all"),
        (["opt-out", ANA, "--account", "a" * 101], "account: is longer than 100"),
        (["opt-out", ANA, "--account", " "], "account: has blanks around it"),
        (["opt-out", "a\udcff@example.com", "--account", "acme"], "address: it holds bytes that are not UTF-8"),
        (["opt-out", ANA, "--account", "acme", "--why", " "], "--why: it is blank"),
    ],
)
def test_what_cannot_be_recorded_is_refused(arguments: list[str], words: str) -> None:
    """The line says which field, and never repeats the address."""
    why = [] if "--why" in arguments else ["--why", "x"]
    line = complaint("consent", *arguments, *why)
    assert words in line
    assert ANA not in line


def test_a_new_account_is_made_and_said() -> None:
    """A name that nobody has used is told on stderr, because it may be mistyped; to show it is refused."""
    answer = duly("consent", "opt-out", ANA, "--account", "acmee", "--why", "x")
    assert "account acmee is new" in answer.stderr
    assert "no account is called 'nobody'" in complaint("consent", "show", ANA, "--account", "nobody")
    assert "no account is called 'nobody'" in complaint("consent", "export", "--account", "nobody")


# --- a list of statements ------------------------------------------------------------------------


def test_a_list_of_statements_is_imported() -> None:
    """Every row is decided and counted; bad ones are set aside with a reason; the same rows again are `already`."""
    name = write(
        "list.csv",
        "address,kind,purpose,at",
        "a@example.com,opt_out,marketing,2026-05-01T00:00:00Z",
        "a@example.com,opt_in,marketing,2026-04-01T00:00:00Z",
        "b@example.com,bounce,,",
        "b@example.com,opt_in,,",
        "c@,bounce,,",
        "c@example.com,bounce,marketing,",
        "c@example.com,wish,,",
        "c@example.com,opt_out,,2026-05-01T00:00:00",
        "c@example.com,opt_out,,2999-05-01T00:00:00Z",
    )
    counts = {"rows": 9, "recorded": 2, "already": 0, "kept_out": 2, "rejected": 5}
    assert told("consent", "import", name, "--account", "acme") == counts
    again = "9 rows: 0 recorded, 2 already, 2 kept out, 5 rejected; see list.csv.rejected.jsonl"
    assert duly("consent", "import", name, "--account", "acme").stdout.strip() == again
    rejected = [json.loads(line) for line in Path("list.csv.rejected.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(one["line"], one["field"]) for one in rejected] == [
        (6, "address"),
        (7, "purpose"),
        (8, "kind"),
        (9, "at"),
        (10, "at"),
    ]
    assert {source for (source,) in ledger("select source from consent_event")} == {"import list.csv"}


def test_mended_rejects_may_be_imported_as_they_are() -> None:
    """A line of the file of rejected rows is taken as the row that it holds."""
    row = {"line": 3, "reason": "is missing", "field": "kind", "row": {"address": ANA, "kind": "complaint"}}
    name = write("mended.jsonl", json.dumps(row))
    assert told("consent", "import", name, "--account", "acme")["recorded"] == 1
    assert told(*consent("show", why=""))["purposes"]["security"] == "complained"


def test_what_is_exported_can_be_imported() -> None:
    """The export of one account, imported into another, is the export of the other."""
    duly(*consent("opt-out", "--purpose", "marketing"))
    duly(*consent("opt-out", "--even-security"))
    duly("consent", "suppress", "+14155550100", "--account", "acme", "--why", 'a "quoted" reason')
    duly("consent", "opt-in", "https://app.example.com/in", "--account", "acme", "--why", "x", "--purpose", "plans")
    exported = lines("consent", "export", "--account", "acme")
    assert len(exported) == 4
    name = write("export.jsonl", *exported)
    assert told("consent", "import", name, "--account", "other")["recorded"] == 4
    assert sorted(lines("consent", "export", "--account", "other")) == sorted(exported)
    assert told("consent", "import", name, "--account", "other")["already"] == 4


def test_rejected_rows_are_a_warning_and_with_strict_a_failure() -> None:
    """The rest is taken in both cases; the warning stands on stderr, where a script's log has it."""
    statements = write("list.csv", "address,kind", "a@example.com,opt_out", "nonsense,opt_out")
    answer = duly("consent", "import", statements, "--account", "acme")
    assert "1 rejected; see list.csv.rejected.jsonl" in answer.stdout
    assert "warning: 1 of 2 rows were rejected" in answer.stderr
    strict = duly("consent", "import", statements, "--account", "acme", "--strict", "--json", code=1)
    assert json.loads(strict.stdout)["rejected"] == 1
    assert "were rejected" not in duly("consent", "import", write("b.csv", "address,kind"), "--account", "acme").stderr
    people = write("people.csv", "id,email", "t1,nonsense")
    assert "1 of 1 rows" in duly("recipients", "import", people, "--account", "acme").stderr
    duly("recipients", "import", people, "--account", "acme", "--strict", code=1)


@pytest.mark.parametrize("lines_", [(ANA, "b@example.com"), ("email", ANA), ("+14155550100",)])
def test_a_bare_list_is_told_how_to_say_what_it_is(lines_: tuple[str, ...]) -> None:
    """One column that is no field: the line has the command that makes a list of statements of it, and no address."""
    line = complaint("consent", "import", write("bare.csv", *lines_), "--account", "acme")
    assert "(echo address,kind; sed 's/$/,opt_out/' FILE) | duly consent import -" in line
    assert ANA not in line


def test_a_first_row_without_a_header_is_not_repeated() -> None:
    """What stands where a column's name should may be somebody's address."""
    line = complaint("consent", "import", write("a.csv", f"{ANA},opt_out"), "--account", "acme")
    assert line.endswith("column 1 is no field; there are address, at, channel, kind, purpose, reason, source")


def test_a_header_that_is_wrong_is_refused() -> None:
    """A column that is no field, and one that is needed and missing, are named."""
    assert 'column "adress" is no field; did you mean "address"? There are address, at, channel,' in complaint(
        "consent", "import", write("a.csv", "adress,kind"), "--account", "acme"
    )
    assert "the header has no column kind" in complaint(
        "consent", "import", write("b.csv", "address"), "--account", "acme"
    )
    assert "column 2 of the header has no name" in complaint(
        "consent", "import", write("c.csv", "address,"), "--account", "acme"
    )


# --- recipients ----------------------------------------------------------------------------------

PEOPLE = (
    (
        '{"id":"t1","name":"A, \\"b","email":"a@b.co","phone":"+14155550100","webhook":null,"zone":"UTC","locale":null,'
        '"quiet_hours":["mon-fri 21:00-08:00","sun 00:00-24:00"]}'
    ),
    (
        '{"id":"t2","name":null,"email":null,"phone":null,"webhook":"https://app.example.com/in","zone":null,'
        '"locale":null,"quiet_hours":null}'
    ),
)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_recipients_round_trip(form: str) -> None:
    """What is exported is what was imported, in both forms, and imported again it changes nothing."""
    name = write("people.jsonl", *PEOPLE)
    counts = {"rows": 2, "created": 2, "changed": 0, "same": 0, "rejected": 0, "zone_changed": 0, "retimed": 0}
    assert told("recipients", "import", name, "--account", "acme") == counts
    assert tuple(lines("recipients", "export", "--account", "acme")) == PEOPLE
    exported = write(f"again.{form}", *lines("recipients", "export", "--account", "acme", "--format", form))
    assert told("recipients", "import", exported, "--account", "acme")["same"] == 2
    assert told("recipients", "import", exported, "--account", "other")["created"] == 2
    assert tuple(lines("recipients", "export", "--account", "other")) == PEOPLE


def test_quiet_hours_are_kept_changed_and_cleared() -> None:
    """In CSV windows are parted by bars; null and an empty list clear them, and what says nothing leaves them."""
    people = write("people.csv", "id,quiet_hours", "t1,20:00-10:00|sun 00:00-24:00", "t2,21:00-08:00", "t3,")
    assert told("recipients", "import", people, "--account", "acme")["created"] == 3
    assert exported_quiet_hours() == [["20:00-10:00", "sun 00:00-24:00"], ["21:00-08:00"], None]
    assert told("recipients", "import", people, "--account", "acme")["same"] == 3
    changes = write(
        "changes.jsonl",
        '{"id":"t1","quiet_hours":null}',
        '{"id":"t2","quiet_hours":[]}',
        '{"id":"t3","quiet_hours":["9:00-10:00"]}',
        '{"id":"t3","quiet_hours":["09:00-10:00"]}',
        '{"id":"t3","name":"C"}',
    )
    counts = told("recipients", "import", changes, "--account", "acme")
    assert (counts["changed"], counts["rejected"]) == (4, 1)
    assert exported_quiet_hours() == [None, None, ["09:00-10:00"]]


def exported_quiet_hours() -> list[list[str] | None]:
    return [json.loads(line)["quiet_hours"] for line in lines("recipients", "export", "--account", "acme")]


def test_recipients_are_changed_and_rejected() -> None:
    """A changed zone is counted apart; a row without an id, or with a wrong field, is set aside."""
    duly("recipients", "import", write("people.jsonl", *PEOPLE), "--account", "acme")
    name = write(
        "more.jsonl",
        '{"id":"t1","zone":"Europe/Rome"}',
        '{"id":"t2","webhook":null}',
        '{"name":"nobody"}',
        '{"id":"t3","zone":"Mars/Base"}',
        '{"id":"t4","email":"x"}',
        '{"id":"t5","quiet_hours":"22-06"}',
    )
    counts = {"rows": 6, "created": 0, "changed": 2, "same": 0, "rejected": 4, "zone_changed": 1, "retimed": 0}
    assert told("recipients", "import", name, "--account", "acme") == counts
    rejected = [json.loads(line) for line in Path("more.jsonl.rejected.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["field"] for one in rejected] == ["id", "zone", "email", "quiet_hours"]
    assert json.loads(lines("recipients", "export", "--account", "acme")[1])["webhook"] is None
    assert ledger("select reason from operation where kind = 'recipient_changed' order by reason") == [
        ("import: webhook",),
        ("import: zone",),
    ]


def test_a_recipient_is_deleted_and_a_channel_disabled() -> None:
    """Each is said once with its reason; a deleted one is neither exported nor brought back."""
    name = write("people.jsonl", *PEOPLE)
    duly("recipients", "import", name, "--account", "acme")
    at_acme = ["--account", "acme", "--why", "he asked to"]
    assert told("recipients", "delete", "t1", *at_acme) == {"account": "acme", "id": "t1", "changed": True}
    assert told("recipients", "delete", "t1", *at_acme)["changed"] is False
    assert told("recipients", "import", name, "--account", "acme")["rejected"] == 1
    assert len(lines("recipients", "export", "--account", "acme")) == 1
    done = told("recipients", "disable", "t2", "--channel", "webhook", *at_acme)
    assert done == {"account": "acme", "id": "t2", "channel": "webhook", "disabled": True, "changed": True}
    assert (
        duly("recipients", "disable", "t2", "--channel", "webhook", *at_acme).stdout
        == "webhook is disabled, as before\n"
    )
    assert told("recipients", "enable", "t2", "--channel", "webhook", *at_acme)["changed"] is True
    kinds = [kind for (kind,) in ledger("select kind from operation where reason = 'he asked to' order by number")]
    assert kinds == ["recipient_deleted", "webhook_channel_disabled", "webhook_channel_enabled"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delete", "t9", "--account", "acme"], "account acme has no recipient 't9': nothing was changed"),
        (["delete", "t9", "--account", "nobody"], "no account is called 'nobody'"),
        (["disable", "t9", "--channel", "fax", "--account", "acme"], "--channel: it is email, sms, webhook"),
        (["enable", "t9", "--channel", "sms", "--account", "acme"], "account acme has no recipient 't9'"),
    ],
)
def test_nobody_is_changed_by_mistake(arguments: list[str], words: str) -> None:
    """A recipient, an account or a channel that is not there is named."""
    assert words in complaint("recipients", *arguments, "--why", "x")


def test_formats_are_two() -> None:
    """Another format than the two is refused where it is asked for."""
    assert "--format: 'xml' is not one of jsonl, csv" in complaint(
        "recipients", "export", "--account", "acme", "--format", "xml"
    )
    name = write("people.jsonl", *PEOPLE)
    assert "'xml' is not one of" in complaint("recipients", "import", name, "--account", "acme", "--format", "xml")


# --- accounts and templates ----------------------------------------------------------------------


def test_accounts_are_paused_and_resumed() -> None:
    """Both are said once, and listed; an account that is not there is named."""
    assert duly("accounts", "list").stdout == "there is no account yet\n"
    duly(*consent("opt-out"))
    assert told("accounts", "pause", "acme", "--why", "x") == {"name": "acme", "paused": True, "changed": True}
    assert duly("accounts", "pause", "acme", "--why", "x").stdout == "acme is paused, as before\n"
    assert [(one["account"], one["paused"]) for one in told("accounts", "list")["accounts"]] == [("acme", True)]
    assert told("accounts", "resume", "acme", "--why", "y") == {"name": "acme", "paused": False, "changed": True}
    assert ledger("select kind, actor, reason from operation order by number") == [
        ("account_paused", operator(), "x"),
        ("account_resumed", operator(), "y"),
    ]
    assert "no account is called 'acmee'" in complaint("accounts", "pause", "acmee", "--why", "x")


def test_templates_are_paused_and_resumed() -> None:
    """Both are said once, and listed; a template that is not configured cannot be paused, only resumed."""
    assert [one["paused"] for one in told("templates", "list")["templates"]] == [False]
    assert told("templates", "pause", "note", "--why", "x") == {"name": "note", "paused": True, "changed": True}
    (shown,) = told("templates", "list")["templates"]
    assert (shown["template"], shown["paused"], shown["actor"], shown["reason"]) == ("note", True, operator(), "x")
    assert duly("templates", "resume", "note", "--why", "y").stdout == "note is not paused\n"
    assert duly("templates", "resume", "gone", "--why", "y").stdout == "gone is not paused, as before\n"
    assert "no template is called 'notes'; did you mean \"note\"?" in complaint(
        "templates", "pause", "notes", "--why", "x"
    )
    assert "no template is called 'zzz'; there are late-summary, note" in complaint(
        "templates", "pause", "zzz", "--why", "x"
    )


def test_the_template_of_summaries_is_paused() -> None:
    """Everybody has it, configured or not."""
    assert told("templates", "pause", "late-summary", "--why", "x")["changed"] is True
    assert [one["template"] for one in told("templates", "list")["templates"]] == ["late-summary", "note"]
    assert duly("templates", "resume", "late-summary", "--why", "y").stdout == "late-summary is not paused\n"


def take(key: str, *, days: int = 300, account: str = "acme") -> None:
    """Import one reminder that is due in so many days."""
    due = datetime.now(UTC) + timedelta(days=days)
    row = {
        "idempotency_key": key, "account": account, "template": "note", "notify_at": due.isoformat(),
        "to": {"id": key, "webhook": "https://app.example.com/in"},
    }  # fmt: skip
    duly("import", write("rows.jsonl", json.dumps(row)))


def test_templates_are_listed_with_what_is_pinned(folder: Path) -> None:
    """A template has its current version, and so many reminders pinned to each; one that is gone has none current."""
    (alone,) = told("templates", "list")["templates"]
    words = ["template", "version", "paused", "since", "actor", "reason", "pinned"]
    assert (list(alone), alone["pinned"]) == (words, [])
    take("a")
    take("b")
    old = alone["version"]
    (folder / "duly.toml").write_text(CONFIG.replace('"Hello"', '"Hello again"'), encoding="utf-8")
    take("c")
    (shown,) = told("templates", "list")["templates"]
    assert old != shown["version"]
    assert {one["version"]: one["reminders"] for one in shown["pinned"]} == {old: 2, shown["version"]: 1}
    assert f"{old}: 2" in duly("templates", "list").stdout
    (folder / "duly.toml").write_text(CONFIG.replace("[templates.note]", "[templates.other]"), encoding="utf-8")
    gone, other = told("templates", "list")["templates"]
    assert (gone["template"], gone["version"], len(gone["pinned"])) == ("note", None, 2)
    assert (other["template"], other["pinned"]) == ("other", [])


def test_templates_are_upgraded(folder: Path) -> None:
    """Reminders that have not fired come to the current version, of one account or of all, on record."""
    take("a")
    take("b", account="bold")
    (folder / "duly.toml").write_text(CONFIG.replace('"Hello"', '"Hello again"'), encoding="utf-8")
    (before,) = told("templates", "list")["templates"]
    done = told("templates", "upgrade", "note", "--account", "bold", "--why", "x")
    assert done == {"name": "note", "version": before["version"], "moved": 1, "under_way": 0}
    text = duly("templates", "upgrade", "note", "--why", "y").stdout
    assert text == f"1 reminder moved to version {before['version']} of note\n"
    (after,) = told("templates", "list")["templates"]
    assert after["pinned"] == [{"version": before["version"], "reminders": 2}]
    assert ledger("select kind, actor, reason from event order by id") == [
        ("template_upgraded", operator(), "x"),
        ("template_upgraded", operator(), "y"),
    ]
    assert ledger("select count(*) from template where name = 'note'") == [(2,)]


def test_an_upgrade_says_what_it_left(folder: Path) -> None:
    """Reminders that go on and have a delivery under way are counted in the text too."""
    take("a", days=0)
    duly("tick")
    with raw(folder / "duly.db") as database:
        database.execute("update reminder set next_due_at = deadline_at, status = 'active'")
    (folder / "duly.toml").write_text(CONFIG.replace('"Hello"', '"Hello again"'), encoding="utf-8")
    assert (
        "; 1 left as they were, because a delivery of theirs is open: run it again later"
        in duly("templates", "upgrade", "note", "--why", "x").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("notes",), "no template is called 'notes'; did you mean \"note\"?"),
        (("note", "--account", "nobody"), "no account is called 'nobody'"),
    ],
)
def test_an_upgrade_of_what_is_not_there_is_refused(arguments: tuple[str, ...], words: str) -> None:
    """A template that is not configured, and an account that nobody knows, are named."""
    assert words in complaint("templates", "upgrade", *arguments, "--why", "x")
