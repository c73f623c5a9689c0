"""The page to log in at, for people: a form without a script, and the cookie that it leads to."""

from html import escape
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from warpmeter.web.security import audit
from warpmeter.web.security.identity import Identity
from warpmeter.web.security.sessions import COOKIE

router = APIRouter(include_in_schema=False)

STYLE: Final = """
:root { color-scheme: light dark; font: 13px/1.5 system-ui, sans-serif; background: light-dark(#fff, #14171c);
  color: light-dark(#1b1f27, #e3e6eb); }
body { margin: 0; display: grid; place-content: center; min-height: 90vh; }
main { width: min(320px, calc(100vw - 32px)); display: grid; gap: 12px; }
h1 { font-size: 15px; margin: 0; }
p { margin: 0; }
form, label { display: grid; gap: 6px; }
input, button { font: inherit; padding: 7px 9px; border-radius: 4px; border: 1px solid light-dark(#868e9c, #6b7482);
  background: light-dark(#fff, #1d2128); color: inherit; }
button { background: #0b5cad; border-color: transparent; color: #fff; cursor: pointer; }
:focus-visible { outline: 2px solid light-dark(#0b5cad, #6fb1f5); outline-offset: 2px; }
[role=alert] { color: light-dark(#a3161c, #ff9c9c); }
small { color: light-dark(#59616e, #a3abb8); }
"""
FORM: Final = """
<form method="post" action="/login">
<input type="hidden" name="next" value="{next}">
<label>Token<input type="password" name="token" autocomplete="current-password" required autofocus{invalid}></label>
<button>Log in</button>
</form>
<p><small>Whoever runs this warpmeter gives out tokens: they stand in its settings, as [[web.tokens]].</small></p>
"""
THROUGH_PROXY: Final = "<p>This address is reached through a proxy, which says who you are. Open it there.</p>"
PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · warpmeter</title><style nonce="{nonce}">{style}</style></head>
<body><main><h1>warpmeter</h1>{why}{form}</main></body></html>
"""


def register(app: FastAPI) -> None:
    """Add the page to log in at, and the address that logs out."""
    app.include_router(router)


@router.get("/login")
def show(request: Request, next: str = "/") -> Response:
    """The form; who is known goes on at once."""
    if request.state.caller is not None:
        return RedirectResponse(safe_next(next), HTTPStatus.SEE_OTHER)
    return _page(request, next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """A session for who has a token."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    token, goal = form.get("token", [""])[0].strip(), form.get("next", ["/"])[0]
    identity: Identity = request.app.state.identity
    caller = identity.of_token(token) if token else None
    if caller is None:
        audit.refused(None, HTTPStatus.UNAUTHORIZED, "that token is not known", address=request.state.address)
        return _page(request, goal, "That token is not known.", HTTPStatus.UNAUTHORIZED)
    audit.record(caller, "login", address=request.state.address)
    answer = RedirectResponse(safe_next(goal), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE, identity.sessions.begin(caller.name), max_age=int(identity.sessions.good_for_s), httponly=True,
        samesite="strict", secure=_secure(request),
    )  # fmt: skip
    return answer


@router.post("/logout")
def log_out() -> Response:
    """The end of a session, in this browser."""
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def safe_next(given: str) -> str:
    """Where to go after the login: a place of ours, else the first page."""
    try:
        found = urlsplit(given)
    except ValueError:
        return "/"
    ours = given.startswith("/") and not given.startswith(("//", "/\\")) and not found.scheme and not found.netloc
    return given if ours and given.isprintable() else "/"


def _secure(request: Request) -> bool:
    """The browser speaks TLS: with us, or with the proxy before us."""
    return request.url.scheme == "https" or (
        request.state.proxied and request.headers.get("x-forwarded-proto", "").lower() == "https"
    )


def _page(request: Request, goal: str, why: str = "", status: int = HTTPStatus.OK) -> HTMLResponse:
    form = FORM.format(next=escape(goal), invalid=' aria-invalid="true" aria-describedby="why"' if why else "")
    alert = f'<p role="alert" id="why">{escape(why)}</p>' if why else ""
    has_tokens = bool(request.app.state.settings.web.tokens)
    text = PAGE.format(nonce=request.state.nonce, style=STYLE, why=alert, form=form if has_tokens else THROUGH_PROXY)
    policy = f"default-src 'none'; style-src 'nonce-{request.state.nonce}'; form-action 'self'; frame-ancestors 'none'"
    return HTMLResponse(text, status, {"content-security-policy": policy, "cache-control": "no-store"})
