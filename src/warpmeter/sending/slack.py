"""A message to a Slack channel by an incoming webhook (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).

Such a webhook takes text and blocks, no files: those are reached by the message's link.
"""

from typing import Any, Final

from warpmeter.sending.message import Message
from warpmeter.sending.outcome import Outcome
from warpmeter.sending.webhook import post_json
from warpmeter.settings import Target

HEADER: Final = 150
SECTION: Final = 3000
"""Characters that a header and a section take."""


def post(target: Target, message: Message) -> Outcome:
    """Acknowledged by Slack's `ok`."""
    return post_json(target, message.id, blocks(message))


def blocks(message: Message) -> dict[str, Any]:
    """Title, words and a link, as Slack's blocks; `text` is what a notification shows."""
    made: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(message.title, HEADER), "emoji": False}}
    ]
    if message.text:
        made.append({"type": "section", "text": {"type": "mrkdwn", "text": cut(escaped(message.text), SECTION)}})
    if message.link:
        words = {"type": "mrkdwn", "text": f"<{escaped(message.link)}|Open it>"}
        made.append({"type": "section", "text": words})
    return {"text": escaped(message.title), "blocks": made}


def escaped(text: str) -> str:
    """The three characters that mean something to Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, characters: int) -> str:
    """At most so many, and visibly less."""
    return text if len(text) <= characters else text[: characters - 1] + "…"
