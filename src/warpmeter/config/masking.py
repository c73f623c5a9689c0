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

HARMLESS: Final = frozenset({
    "client.id", "client.rack", "enable.ssl.certificate.verification", "sasl.kerberos.keytab",
    "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.mechanisms",
    "sasl.oauthbearer.client.id", "sasl.oauthbearer.method", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "sasl.username", "security.protocol", "ssl.ca.location",
    "ssl.certificate.location", "ssl.crl.location", "ssl.endpoint.identification.algorithm", "ssl.key.location",
    "ssl.keystore.location",
})  # fmt: skip
"""librdkafka's settings that tell how it logs in, as whom and with which files, and none of what it logs in with. Of
maps with secrets in them no other value is shown: a name that nobody thought of may be that of a secret."""


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
    if not isinstance(value, Mapping):
        return MASK
    return {name: masked_url(each) if name in HARMLESS else MASK for name, each in value.items()}


def _has_secrets(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and any(field.metadata.get("secret") for field in dataclasses.fields(value))
