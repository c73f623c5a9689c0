"""Unit tests touch no network: a socket that they open fails the test."""

import pytest
import pytest_socket


@pytest.fixture(autouse=True)
def _no_sockets() -> None:
    pytest_socket.disable_socket(allow_unix_socket=True)
