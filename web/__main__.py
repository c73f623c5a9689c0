"""The process of API and pages: `python -m warpmeter.web FD`, started by `warpmeter web` and `warpmeter up`.

Exit codes: 0 after a stop that was asked for, 78 when somebody must act; anything else may be started again.
"""

import sys

import uvicorn

from warpmeter import launch, log, selfmetrics
from warpmeter.web.app import create


def main() -> int:
    settings, _ = launch.received(sys.argv[1:])
    logger = log.setup(settings.log, "web")
    selfmetrics.serve(settings.metrics, "web")
    logger.info("serving", address=f"http://{settings.web.listen}:{settings.web.port}")
    uvicorn.run(create(settings), host=settings.web.listen, port=settings.web.port, log_config=None, access_log=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
