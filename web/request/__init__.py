"""What a request says: who asks, for which window, which part of a list, of what that is known."""

from warpmeter.web.request import named as named  # routes are declared with it
