"""Ways out to people and programs: a folder or object store, mail, Slack, a webhook. One call, one typed outcome.

`send(target, message)` never raises for what a target does, takes at most about `target.timeout_s` seconds, and says
nothing secret in an outcome: a Slack address is a secret as a whole, so only its host is named.
"""

from warpmeter.sending.message import File, Message
from warpmeter.sending.outcome import Outcome, Refused, Sent, TryAgain
from warpmeter.settings import Target

__all__ = ["File", "Message", "Outcome", "Refused", "Sent", "TryAgain", "send"]


def send(target: Target, message: Message) -> Outcome:
    """Deliver once. Call again after `TryAgain`; `Refused` needs somebody to act first.

    The same `message.id` for each attempt: a folder then keeps one copy, a webhook gets it as its idempotency key, and
    a mail has the same Message-ID, should an attempt have arrived whose acknowledgement was lost.
    """
    match target.kind:  # each loads what it needs itself
        case "folder":
            from warpmeter.sending import folder

            return folder.write(target, message)
        case "mail":
            from warpmeter.sending import mail

            return mail.post(target, message)
        case "slack":
            from warpmeter.sending import slack

            return slack.post(target, message)
        case "webhook":
            from warpmeter.sending import webhook

            return webhook.post(target, message)
