"""Where settings come from: the command line, variables, files that these name, and the TOML file."""

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import Any, Final

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from warpmeter.config.known import PREFIX, TABLES, ConfigError
from warpmeter.settings import Settings

PLACES: Final = (Path("warpmeter.toml"), Path("/etc/warpmeter/warpmeter.toml"))
OTHER_VARIABLES: Final = frozenset({"WARPMETER_CONFIG", "WARPMETER_CACHE", "WARPMETER_TANSU", "WARPMETER_STACKS"})
IN_FILE: Final = "_FILE"
"""Ends the name of a variable that names the file which holds the value."""


class Reader(BaseSettings):
    """The same tables as `Settings`, still unchecked, merged over the sources by pydantic-settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")

    kafka: dict[str, Any] = {}
    store: dict[str, Any] = {}
    log: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    agent: dict[str, Any] = {}
    ingest: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    traces: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    web: dict[str, Any] = {}
    alerts: dict[str, Any] = {}
    reports: dict[str, Any] = {}

    file: dict[str, Any] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is the library's
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is the library's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment, itself or by files that it names, over file."""
        given = init_settings()
        file = InitSettingsSource(settings_cls, init_kwargs=given.pop("file", {}))
        variables, kept = EnvSettingsSource(settings_cls), InitSettingsSource(settings_cls, init_kwargs=_from_files())
        variables.env_vars = {key: it for key, it in variables.env_vars.items() if not _names_a_file(key.upper())}
        return InitSettingsSource(settings_cls, init_kwargs=given), variables, kept, file


def config_path(path: Path | None) -> Path | None:
    """The TOML file that is read: the one given, that of $WARPMETER_CONFIG, or the first of PLACES that exists."""
    if path is not None:
        return path
    if named := os.environ.get("WARPMETER_CONFIG"):
        return Path(named)
    return next((place for place in PLACES if place.is_file()), None)


def read_toml(path: Path | None) -> dict[str, Any]:
    """Its tables; raises ConfigError where they cannot be read."""
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin with a mark of it
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def refuse_unknown_variables() -> None:
    """Raises ConfigError for a variable that begins with WARPMETER_ and means nothing."""
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if not _known_variable(name) and not _names_a_file(name):
            raise ConfigError(f"unknown variable {name}; the form is {PREFIX}<TABLE>__<KEY>, e.g. {PREFIX}STORE__DSN")


def _known_variable(name: str) -> bool:
    table, _, key = name.removeprefix(PREFIX).lower().partition("__")
    if table not in TABLES:
        return False
    part = type(getattr(Settings(), table))
    return not key or key.partition("__")[0] in {field.name for field in dataclasses.fields(part)}


def _names_a_file(name: str) -> bool:
    """WARPMETER_STORE__DSN_FILE is the file that holds store.dsn, as containers are given their secrets."""
    held = name.removesuffix(IN_FILE)
    if not name.endswith(IN_FILE) or "__" not in held or not _known_variable(held):
        return False
    return held.count("__") > 1 or not _known_variable(name)  # below a key nothing is called _file


def _from_files() -> dict[str, Any]:
    """What variables `WARPMETER_<TABLE>__<KEY>_FILE` name, as nested tables; raises ConfigError."""
    tables: dict[str, Any] = {}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and _names_a_file(name):
            *above, key = name.removeprefix(PREFIX).removesuffix(IN_FILE).lower().split("__")
            place = tables
            for step in above:
                place = place.setdefault(step, {})
            place[key] = _held(name, Path(os.environ[name]))
    return tables


def _held(name: str, path: Path) -> str:
    if name.removesuffix(IN_FILE) in os.environ:
        raise ConfigError(f"both {name} and {name.removesuffix(IN_FILE)} are set: leave one of them out")
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{name}: cannot read {path}: {why}") from error
    if not text:
        raise ConfigError(f"{name}: {path} is empty; it must hold the value alone")
    return text
