"""What every answer tells a browser: load nothing from elsewhere, be in no frame of another page, guess no types."""

from typing import Final

ALWAYS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # A trace is handed to Perfetto's window, which this page opens.
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "cross-origin-resource-policy": "same-origin",
}
NOTHING: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
"""Of what is no page, and of the page to log in, which has its own style and nothing else."""


def page_policy(nonce: str) -> str:
    """The policy of a page. Scripts are files of ours, or carry this answer's nonce.

    'unsafe-eval' is there for Vue, which compiles the panels' templates in the browser (there is no build step), and
    for NiceGUI, which evaluates the handlers that its elements bring. Styles are set by elements all the time.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )
