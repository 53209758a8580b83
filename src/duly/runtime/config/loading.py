"""Reading the configuration: find the file, lay the layers, check them, and say everything that is wrong at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from duly.errors import ConfigError
from duly.runtime.config.checks import conflicts, warnings
from duly.runtime.config.layers import Layers, overlay, wrap_secrets
from duly.runtime.config.model import Config
from duly.runtime.config.problems import complain, key_of, line, refusal

__all__ = ["FILE_NAME", "load", "named_file", "parse"]

FILE_NAME: Final = "duly.toml"
FILE_BYTES_MAX: Final = 1_048_576


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read and check the configuration.

    `path` comes from `--config`; without it DULY_CONFIG, then `duly.toml` in the working directory. With no
    file at all the environment may say everything, which takes at least DULY_DATABASE. Raises ConfigError.
    """
    named = named_file(path, environ)
    file = named or Path(FILE_NAME)
    if named or file.exists():
        return parse(_read(file), file, environ)
    if any(name.upper() == "DULY_DATABASE" for name in environ):
        return parse("", None, environ)
    raise ConfigError(f"no {FILE_NAME} in this folder: run `duly init`, or give --config")


def named_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file that `--config` or DULY_CONFIG names, if one of them does."""
    return path or (Path(environ["DULY_CONFIG"]) if environ.get("DULY_CONFIG") else None)


def parse(text: str, file: Path | None, environ: Mapping[str, str]) -> Config:
    """Check a configuration's text. `file` gives its name and the folder that relative paths start at."""
    name = _shown(file) if file else "environment"
    folder = file.absolute().parent if file else Path.cwd()
    layers = Layers(_toml(text, name), name)
    overlay(layers, environ)
    secrets = wrap_secrets(layers, folder, environ)
    config = _validated(layers, {"folder": folder, "here": Path.cwd()})
    if config is None or layers.problems:
        raise refusal(layers)
    return config.came_from(file, layers.origins, warnings(config, secrets, name))


# --- the file ------------------------------------------------------------------------------------


def _shown(file: Path) -> str:
    return re.sub(r"[^\x20-\x7e\xa0-\ud7ff]", "?", str(file))


def _read(file: Path) -> str:
    name = _shown(file)
    try:
        with file.open("rb") as stream:
            raw = stream.read(FILE_BYTES_MAX + 1)
        text = raw[:FILE_BYTES_MAX].decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file; run `duly init`, or give another --config") from None
    except IsADirectoryError:
        raise ConfigError(f"{name}: is a folder; give the file in it, such as {name}/{FILE_NAME}") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {(error.strerror or 'input/output error').lower()}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text (byte {error.start})") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{name}: larger than 1 MiB, which no configuration is")
    return text


def _toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{name}: {_place(str(error), text)}") from None


def _place(message: str, text: str) -> str:
    """Turn "What (at line 3, column 5)" round; the place comes first, as in every other tool."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
    if not found:
        return "not TOML: a number or date in it cannot be read"
    what, row, column = found.groups()
    lines = text.split("\n")
    return f"line {row or len(lines)}, column {column or len(lines[-1]) + 1}: not TOML: {what[:1].lower()}{what[1:]}"


# --- the checks ----------------------------------------------------------------------------------


def _validated(layers: Layers, context: dict[str, Path]) -> Config | None:
    """Validate the table; the problems go to `layers`, so a Config may come back together with some."""
    config = None
    try:
        config = Config.model_validate(layers.table, context=context)
    except ValidationError as error:
        complain(layers, error.errors())
        config = _without_unknown_keys(layers, error, context)
    if config:
        layers.problems.extend(line(layers, key, text) for key, text in conflicts(config))
    return config


def _without_unknown_keys(layers: Layers, error: ValidationError, context: dict[str, Path]) -> Config | None:
    """The configuration as it would be without its unknown keys, so that the checks between tables speak too."""
    for detail in error.errors():
        if detail["type"] == "extra_forbidden":
            *above, last = key_of(detail)
            table = layers.table
            for part in above:
                table = table[part]
            del table[last]
    try:
        return Config.model_validate(layers.table, context=context)
    except ValidationError:
        return None
