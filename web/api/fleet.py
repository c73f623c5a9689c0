"""The fleet as a whole: statistics, series, heatmap."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from warpmeter.web.context import Asking
from warpmeter.web.times import Asked

router = APIRouter(tags=["fleet"])


@router.get("/heatmap", response_class=Response)
def heatmap(
    reads: Asking, window: Asked, metric: Annotated[str, Query(description="SI name of a GPU's metric.")] = "gpu_util"
) -> Response:
    """One row a GPU, columns of a value a step: `{"host": [...], "gpu": [...], "uuid": [...], "values": [[...]]}`."""
    body = reads.json("heatmap", metric=metric, **window.parameters())
    return Response(body, media_type="application/json")
