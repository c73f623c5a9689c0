"""Whatever the API's own description allows to be asked, and what it does not, gets an answer that it describes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok

from tests.brokers import Tansu
from warpmeter import topics
from warpmeter.settings import Kafka, Settings, Store, Traces, Web
from warpmeter.web.app import api_app

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
EXAMPLES = 15


@pytest.fixture
def app(embedded: Store, tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The API over empty tables and a broker of its own."""
    kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix="web-schema", partitions=1)
    topics.ensure(kafka)
    traces = Traces(url=str(tmp_path_factory.mktemp("traces")))
    store = replace(embedded, database="shared")
    found = api_app(Settings(kafka=kafka, store=store, traces=traces, web=Web(hosts=("testserver",))))
    with TestClient(found):  # its end is the application's
        yield found


@pytest.mark.usefixtures("shared_tables")
def test_every_question_has_an_answer_that_is_described(app: FastAPI) -> None:
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) > 40
    wrong = [why for operation in operations for why in broken(operation)]
    assert not wrong, "\n\n".join(wrong)


def broken(operation: Any) -> list[str]:
    """Ask what an operation allows, and what it does not; what was wrong with the answers."""

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(operation.as_strategy() | operation.as_strategy(GenerationMode.NEGATIVE))
    def ask(case: Any) -> None:
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    try:
        ask()
    except FailureGroup as group:
        return [f"{operation.label}: {each}" for each in group.exceptions]
    return []
