"""What a request names and nothing has ever been heard of: 404, naming the field."""

import json
from typing import Literal

from warpmeter.web.request.times import missing
from warpmeter.web.store.reads import Reads


def host_or_404(reads: Reads, host: str, where: Literal["path", "query"] = "path", field: str = "host") -> None:
    """Nothing when something has been heard of the host; else 404."""
    if not json.loads(reads.json("known_host", host=host))["known"][0]:
        raise missing(where, field, f"nothing has been heard of a host {host}: /api/v1/hosts lists them", host)


def job_or_404(reads: Reads, job: str, where: Literal["path", "query"] = "path", field: str = "job_id") -> None:
    """Nothing when something has been heard of the job; else 404."""
    if not json.loads(reads.json("known_job", job_id=job))["known"][0]:
        raise missing(where, field, f"nothing has been heard of a job {job}: /api/v1/jobs lists them", job)
