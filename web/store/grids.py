"""Rows of any query as a grid: columns with ClickHouse's types, and rows as lists."""

import json
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, Field

Form = Annotated[Literal["json", "csv"], Query(alias="format", description="How to answer.")]


class Column(BaseModel):
    """A column, and its type as ClickHouse names it."""

    name: str = Field(examples=["host"])
    type: str = Field(examples=["LowCardinality(String)"])


class Grid(BaseModel):
    """What a query answered. `truncated`: there are more rows than the limit lets through."""

    columns: list[Column]
    rows: list[list[Any]] = Field(examples=[[["gpu-001", 0.93]]])
    truncated: bool = False
    took_s: float = Field(description="What the store took.", examples=[0.012])


def grid(compact: bytes, most: int) -> Grid:
    """Of ClickHouse's JSONCompact; more than `most` rows are cut."""
    found = json.loads(compact)
    columns = [Column(**each) for each in found["meta"]]
    took_s = found.get("statistics", {}).get("elapsed", 0.0)
    return Grid(columns=columns, rows=found["data"][:most], truncated=len(found["data"]) > most, took_s=took_s)


def csv(body: bytes, name: str) -> Response:
    """A file to keep."""
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(body, media_type="text/csv; charset=utf-8", headers=headers)
