"""From what a person names to what answers: a store's DSN, a data folder, an API, or what runs here."""

from datetime import tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from warpmeter.frames.asking import AskError
from warpmeter.frames.frames import Frames
from warpmeter.frames.sources import Api, Direct, Source
from warpmeter.settings import Store

SCHEMES: Final = ("http", "https", "chdb", "clickhouse", "clickhouses")


def connect(where: str | Path = "", *, database: str = "", token: str = "", tz: str | tzinfo = "UTC") -> Frames:
    """Frames of a store.

    `where`: a ClickHouse DSN (`http://user:password@host:8123`, `https://…`, or `chdb:///path` for a folder that no
    process has open), the data folder of a running `warpmeter up`, or nothing for the store of the settings in force
    (warpmeter.toml, WARPMETER_…) and else the `up` that runs here. With `token`, or a URL that ends in `/api`, it is
    the web's API. `tz`: whose times frames show, and what times without an offset are of.

    Raises AskError when nothing answers there.
    """
    zone = _zone(tz)
    text = str(where)
    if token or text.rstrip("/").endswith(("/api", "/api/v1")):
        return Frames(_api(text, token), zone)
    if "://" in text:
        return Frames(_direct(text, database), zone)
    return Frames(_direct(*_found(text, database)), zone)


def _zone(tz: str | tzinfo) -> tzinfo:
    try:
        return ZoneInfo(tz) if isinstance(tz, str) else tz
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise AskError(f"there is no time zone {tz!r}: write UTC, Europe/Berlin, …") from error


def _api(url: str, token: str) -> Source:
    if not url.startswith(("http://", "https://")):
        raise AskError(f"a token is for the web's API: give its address, https://…, not {url or 'nothing'}")
    found = Api(url.rstrip("/").removesuffix("/v1").removesuffix("/api"), token)
    return found


def _direct(dsn: str, database: str) -> Source:
    scheme = dsn.partition("://")[0]
    if scheme not in SCHEMES:
        raise AskError(f"{scheme}:// is no store: give http(s)://host:8123, or chdb:///path")
    return Direct(Store(dsn=dsn, database=database or Store().database))


def _found(folder: str, database: str) -> tuple[str, str]:
    """DSN and database of a data folder; of none what the settings say, or the `up` that runs here."""
    from warpmeter import config
    from warpmeter.up.folder import Folder

    try:
        loaded = config.load()
    except config.ConfigError as error:
        raise AskError(str(error)) from error
    if not folder and loaded.store.dsn != Store().dsn:
        return loaded.store.dsn, database or loaded.store.database
    root = Path(folder).expanduser() if folder else loaded.engine.data
    running = Folder(root).running()
    if running is not None:
        return running.dsn, database or running.database
    if folder:
        raise AskError(
            f"no `warpmeter up` runs on {root}: start it, or read its engine alone with chdb://{root}/engine"
        )
    return loaded.store.dsn, database or loaded.store.database
