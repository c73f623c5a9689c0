"""Which names we answer to, and whether a page of somebody else's is behind a request: pure.

A page that a browser shows from elsewhere can send requests here, from the user's machine and with the user's cookies,
and after it had its own name resolve to our address (DNS rebinding) read the answers. Against the first a browser says
which page asks, in `Sec-Fetch-Site` or `Origin`; against the second stands the name in `Host`.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from warpmeter.settings import Web
from warpmeter.web.security.requests import Asked

OURS: Final = ("same-origin", "none")


def _name(host: str) -> str:
    """The name in a Host header or an origin's authority, without its port; '' for what is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _names(web: Web) -> set[str]:
    return {name.lower().rstrip(".") for name in web.hosts}


def _on_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def unknown_host(asked: Asked, web: Web) -> str:
    """Why a request for that name is refused, '' when it is not.

    Where callers say who they are any name will do, unless `web.hosts` lists some: what a browser has for another name
    it does not send to ours.
    """
    name = _name(asked.host)
    if name and (name in _names(web) or name == web.listen or (web.loopback and _on_loopback(name))):
        return ""
    if name and web.guarded and not web.hosts:
        return ""
    return f"this server does not go by the name {name!r}: open it by its address, or add the name to web.hosts"


def cross_site(asked: Asked, web: Web) -> str:
    """Why a request that may change something is refused as another site's, '' when it is not.

    Programs send none of these headers; browsers let no page set them.
    """
    origin, site = asked.headers.get("origin"), asked.headers.get("sec-fetch-site")
    if site is not None:
        return "" if site in OURS else f"a page of another site ({origin or site}) may not do this"
    if origin is None:
        return ""
    where = urlsplit(origin).netloc.lower()
    if where and (where == asked.host or _name(where) in _names(web)):
        return ""
    return f"a page of another site ({origin}) may not do this; a proxy's own name belongs into web.hosts"
