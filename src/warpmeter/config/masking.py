"""Settings as they may be shown: without what is secret in them."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from warpmeter.config.known import TABLES
from warpmeter.settings import Settings

MASK: Final = "********"
HOST: Final = re.compile(r"^(https?://[^/]*)/.*", re.DOTALL)
IN_QUERY: Final = re.compile(r"((?:password|passwd|token|secret|key)=)[^&\s]+", re.IGNORECASE)


def shown(settings: Settings) -> dict[str, Any]:
    """The settings as nested dicts with secrets masked: for logs, `doctor` and `--check`."""
    return {name: _masked(getattr(settings, name)) for name in TABLES}


def masked_url(url: str) -> str:
    """A URL with its password masked, and what its query calls a password, token or key.

    A password that is not encoded may hold `/` and `@`: all up to the last `@` is taken for it.
    """
    return IN_QUERY.sub(rf"\1{MASK}", re.sub(r"(://[^/@:]*:)\S+@", rf"\1{MASK}@", url))


def _masked(part: Any) -> dict[str, Any]:
    return {field.name: _masked_value(field, getattr(part, field.name)) for field in dataclasses.fields(part)}


def _masked_value(field: dataclasses.Field[Any], value: Any) -> Any:
    if isinstance(value, tuple) and any(map(_has_secrets, value)):
        return [_masked(each) for each in value]
    if not field.metadata.get("secret") or not value:
        return masked_url(value) if isinstance(value, str) and "://" in value else value
    if field.metadata["secret"] == "path" and isinstance(value, str):
        return HOST.sub(rf"\1/{MASK}", masked_url(value))
    if isinstance(value, str) and "://" in value:
        return masked_url(value)
    return dict.fromkeys(value, MASK) if isinstance(value, Mapping) else MASK


def _has_secrets(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and any(field.metadata.get("secret") for field in dataclasses.fields(value))
