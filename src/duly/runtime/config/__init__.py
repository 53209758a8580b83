"""Configuration: what the operator wrote, checked as a whole before anything starts.

Three layers, the later wins: defaults, `duly.toml`, the environment (`DULY_...`, two underscores for each
dot). The layers are laid over each other as plain tables first, with the origin of every value kept, then
checked once by the pydantic models of `model`, then against each other (`checks`). So a value is checked by
the same rule wherever it came from, and every complaint can name the line's key or the variable.

A wrong configuration is one `ConfigError`. Its text holds one line for each problem, the first of which can
stand alone; no line ever quotes a secret, a password or a URL that may hold one.

Secrets are references (`env:NAME`, `file:PATH`). They are resolved when `reveal` is called, not when the
file is read, so that `duly config` works where the secrets are not.
"""

from duly.runtime.config.loading import FILE_NAME, load, named_file, parse
from duly.runtime.config.model import Account, Config, Endpoint, Provider, Smtp, Template, Unsubscribe, Webhook
from duly.runtime.config.values import Database, Secret, SmtpServer, parse_database

__all__ = [
    "FILE_NAME",
    "Account",
    "Config",
    "Database",
    "Endpoint",
    "Provider",
    "Secret",
    "Smtp",
    "SmtpServer",
    "Template",
    "Unsubscribe",
    "Webhook",
    "load",
    "named_file",
    "parse",
    "parse_database",
]
