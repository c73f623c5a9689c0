"""The one error of this package."""


class ReplayError(Exception):
    """It cannot be done, or not now; nothing was half done that the next try would not finish. Says what to do.

    `exit_status` is the command's: 78 when somebody must change the settings or the host.
    """

    def __init__(self, why: str, exit_status: int = 1) -> None:
        super().__init__(why)
        self.exit_status = exit_status
