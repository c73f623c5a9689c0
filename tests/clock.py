"""A clock by hand."""


class FakeClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.passed = 1000.0
        self.stepped = 0.0

    def now(self) -> float:
        """UTC."""
        return 1_800_000_000.0 + self.passed + self.stepped

    def monotonic(self) -> float:
        """Never steps."""
        return self.passed

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.passed += seconds

    def step(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self.stepped += seconds
