"""A clock by hand."""


class FakeClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.passed = 1000.0

    def now(self) -> float:
        """UTC."""
        return 1_800_000_000.0 + self.passed

    def monotonic(self) -> float:
        """Never steps."""
        return self.passed

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.passed += seconds
