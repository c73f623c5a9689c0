"""The metric table: what is measured, under which name, in which unit."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from warpmeter.schemas.metrics import METRICS, Kind
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.times import invalid
from warpmeter.web.store.answers import Answers, told

router = APIRouter(tags=["metrics"])


class MetricRow(BaseModel):
    """A metric as people read it, in SI units."""

    name: str = Field(examples=["power_watts"])
    unit: str = Field(examples=["W"])
    kind: Kind
    topic: str = Field(examples=["gpu-samples"])
    meaning: str = Field(examples=["power drawn"])
    rolled_up: bool = Field(description="Kept in minutes and hours (of devices in hours), after the raw rows are gone.")


class MetricTable(BaseModel):
    """All metrics."""

    data: list[MetricRow]
    total: int


@router.get("/metrics", response_class=Response, responses=told(MetricTable, lasting=True))
def metrics(
    _: Viewer,
    answers: Answers,
    topic: Annotated[str, Query(description="Of this topic alone.", examples=["gpu-samples"])] = "",
) -> Response:
    """The metric table: name, unit, kind, topic and meaning of everything that is measured."""
    topics = list(dict.fromkeys(metric.topic for metric in METRICS))
    if topic and topic not in topics:
        raise invalid("topic", f"no metrics in {topic}; there are {', '.join(topics)}", topic)
    named = [each for each in METRICS if topic in ("", each.topic)]
    data = [{name: getattr(each, name) for name in MetricRow.model_fields} for each in named]
    return answers.json({"data": data, "total": len(data)}, lasting=True)
