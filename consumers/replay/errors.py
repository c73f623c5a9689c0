"""The one error of this package."""


class ReplayError(Exception):
    """It cannot be done, or not now; nothing was half done that the next try would not finish. Says what to do."""
