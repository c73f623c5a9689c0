"""Exit status 0 when one of the addresses answers with 200: what containers ask of themselves (`HEALTHCHECK`)."""

import sys
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

TIMEOUT_S = 5


def answers(url: str) -> bool:
    """Whether it does, within TIMEOUT_S, whatever proxy the environment names."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=TIMEOUT_S) as reply:
            return bool(reply.status == 200)
    except (URLError, OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(0 if any(map(answers, sys.argv[1:])) else 1)
