"""deploy/prometheus and the dashboard Processes: alerts by Prometheus' own unit tests, PromQL in a real Prometheus.

promtool and prometheus are Debian's (`apt-get install prometheus`).
"""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.brokers.process import free_ports
from tests.real import agents
from tests.wait import until
from warpmeter import selfmetrics
from warpmeter.settings import Kafka, Metrics

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "warpmeter.rules.yml"
CONFIG: Final = DEPLOY / "prometheus" / "prometheus.yml"
PAGE: Final = DEPLOY.parent / "docs" / "deploy" / "monitoring.md"
GROUPS: Final = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: Final = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
BOARD: Final = json.loads((DEPLOY / "grafana" / "dashboards" / "processes.json").read_text())
SHOWN: Final = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
ASKED: Final = [*(rule["expr"] for rule in ALERTS.values()), *SHOWN]
NAME: Final = re.compile(r"\bwarpmeter_\w+")
NAMES: Final = {name for expr in ASKED for name in NAME.findall(expr)}
MINUTES: Final = 120


def _tool(name: str) -> str:
    if (found := shutil.which(name)) is None:
        pytest.skip(f"{name} is missing: apt-get install prometheus")
    return found


# --- names --------------------------------------------------------------------------------------------------------


def _own(name: str) -> selfmetrics.Own | None:
    """The metric that a series is of: histograms have three."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    found = selfmetrics.TABLE.get(name) or selfmetrics.TABLE.get(base)
    return found if found is None or (name == base) == (found.kind != "histogram") else None


@pytest.mark.parametrize("expr", ASKED)
def test_metrics_and_labels_that_are_asked_for_are_in_the_table(expr: str) -> None:
    names = set(NAME.findall(expr))
    assert [name for name in names if _own(name) is None] == []
    if names:
        known = {"job", "instance", "le", "status"}.union(*(own.labels for own in map(_own, names) if own))
        by = {label for group in re.findall(r"by \(([^)]*)\)", expr) for label in group.split(", ")}
        given = set(re.findall(r"[{,]\s*(\w+)=", expr))
        assert by | given <= known, expr
    for counter in names:
        assert not counter.endswith("_total") or re.search(
            rf"(rate|increase)\({counter}|{counter} (unless|offset)", expr
        )


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    own = {found.name for name in NAMES if (found := _own(name))}
    beside = {
        "warpmeter_kineto_datagrams_total", "warpmeter_kineto_rpc_total", "warpmeter_output_values_total",
        "warpmeter_ingest_group",
    }  # fmt: skip
    assert set(selfmetrics.TABLE) - own == beside


def test_every_alert_says_what_is_wrong_and_the_page_what_to_do() -> None:
    page = PAGE.read_text()
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["runbook"] == f"docs/deploy/monitoring.md#{name.lower()}"
        assert f"\n### {name}\n" in page
    assert re.findall(r"\n### (\w+)\n", page) == list(ALERTS)


def test_the_example_scrapes_each_part_on_its_port_and_keeps_own_metrics_of_agents() -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load(CONFIG.read_text())["scrape_configs"]}
    ports = {name: int(job["static_configs"][0]["targets"][0].rsplit(":", 1)[1]) for name, job in jobs.items()}
    defaults = Metrics()
    assert ports == {
        f"warpmeter-{part}": getattr(defaults, f"{part}_port")
        for part in ("agent", "ingest", "scheduler", "web", "engine")
    }
    (kept,) = jobs["warpmeter-agent"]["metric_relabel_configs"]
    others = r"warpmeter_(ingest|scheduler|alerts?|reports?|engine|web)_.+"
    assert [name for name in NAMES if not re.fullmatch(f"{kept['regex']}|{others}", name)] == []
    assert not re.fullmatch(kept["regex"], "warpmeter_gpu_power_watts")


# --- alerts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Series of one minute in promtool's notation, over those of a healthy fleet; the alert fires at `at` minutes."""

    at: int
    series: Mapping[str, str] = field(default_factory=dict)
    quiet: int = 0
    """When nothing fires yet."""


def _up(part: str, values: str, instance: str = "a:1") -> dict[str, str]:
    return {f'up{{job="warpmeter-{part}",instance="{instance}"}}': values}


HEALTHY: Final = {
    **_up("agent", f"1x{MINUTES}"), **_up("ingest", f"1x{MINUTES}"), **_up("web", f"1x{MINUTES}"),
    **_up("scheduler", f"1x{MINUTES}"),
    'warpmeter_scheduler_active{instance="a:1"}': f"1x{MINUTES}",
    'warpmeter_scheduler_active{instance="b:1"}': f"0x{MINUTES}",
    "warpmeter_alerts_evaluated_timestamp_seconds": f"1+60x{MINUTES}",
    'warpmeter_spool_bytes{instance="a:1"}': f"0x{MINUTES}",
    'warpmeter_source_up{source="gpu",instance="a:1"}': f"1x{MINUTES}",
    'warpmeter_spool_dropped_messages_total{why="full"}': f"0x{MINUTES}",
    'warpmeter_ingest_lag_messages{topic="t",partition="0"}': f"500x{MINUTES}",
    'warpmeter_ingest_failing_since_timestamp_seconds{instance="a:1"}': f"0x{MINUTES}",
    'warpmeter_ingest_busy_since_timestamp_seconds{instance="a:1"}': f"0x{MINUTES}",
    'warpmeter_alert_receiver_failing_since_timestamp_seconds{receiver="mail"}': f"0x{MINUTES}",
    'warpmeter_engine_requests_total{method="GET",status="200"}': f"0+60x{MINUTES}",
    'warpmeter_web_requests_total{route="/",status="200"}': f"0+60x{MINUTES}",
    'warpmeter_web_requests_total{route="/",status="500"}': f"0+1x{MINUTES}",
    'warpmeter_web_request_seconds_bucket{le="1"}': f"0+60x{MINUTES}",
    'warpmeter_web_request_seconds_bucket{le="10"}': f"0+60x{MINUTES}",
    'warpmeter_web_request_seconds_bucket{le="+Inf"}': f"0+60x{MINUTES}",
}  # fmt: skip
CASES: Final = {
    "WarpmeterProcessDown": Case(15, _up("web", "1x5 0x100"), quiet=8),
    "WarpmeterAgentsDown": Case(20, _up("agent", "0x100", "b:1"), quiet=5),
    "WarpmeterSpoolsGrow": Case(30, {'warpmeter_spool_bytes{instance="a:1"}': "0x5 0+1000000x100"}, quiet=8),
    "WarpmeterAgentsLose": Case(90, {'warpmeter_spool_dropped_messages_total{why="full"}': "0x80 2x100"}, quiet=70),
    "WarpmeterBrokerRefuses": Case(
        90, {'warpmeter_shipper_lost_messages_total{topic="t",why="MSG_SIZE_TOO_LARGE"}': "_x80 1x100"}, quiet=70
    ),
    "WarpmeterSourceFails": Case(30, {'warpmeter_source_up{source="gpu",instance="b:1"}': "0x100"}, quiet=10),
    "WarpmeterOutputDrops": Case(90, {'warpmeter_output_dropped_total{output="o",why="full"}': "_x80 1x100"}, quiet=70),
    "WarpmeterNobodyIngests": Case(20, _up("ingest", "1x5 _x100"), quiet=8),
    "WarpmeterIngestBehind": Case(
        40, {'warpmeter_ingest_lag_messages{topic="t",partition="1"}': "0x10 0+500x100"}, quiet=12
    ),
    "WarpmeterInsertsFail": Case(
        20, {'warpmeter_ingest_failing_since_timestamp_seconds{instance="a:1"}': "0x9 600x100"}, quiet=14
    ),
    "WarpmeterInsertHangs": Case(
        20, {'warpmeter_ingest_busy_since_timestamp_seconds{instance="a:1"}': "0x9 600x100"}, quiet=14
    ),
    "WarpmeterMessagesRefused": Case(90, {'warpmeter_ingest_rejects_total{topic="t"}': "_x80 3x100"}, quiet=70),
    "WarpmeterMessagesLost": Case(90, {'warpmeter_ingest_lost_messages_total{topic="t"}': "_x80 3x100"}, quiet=70),
    "WarpmeterNoScheduler": Case(20, {'warpmeter_scheduler_active{instance="a:1"}': "1x5 0x100"}, quiet=8),
    "WarpmeterSeveralSchedulers": Case(20, {'warpmeter_scheduler_active{instance="b:1"}': "0x5 1x100"}, quiet=8),
    "WarpmeterRulesNotEvaluated": Case(
        20, {"warpmeter_alerts_evaluated_timestamp_seconds": "1+60x5 300x100"}, quiet=9
    ),
    "WarpmeterRuleFails": Case(30, {'warpmeter_alerts_rule_errors_total{rule="gpu_hot"}': "_x20 1+1x100"}, quiet=18),
    "WarpmeterAlertsNotPublished": Case(30, {"warpmeter_alerts_bus_errors_total": "0x20 1+1x100"}, quiet=18),
    "WarpmeterReceiverFails": Case(
        30, {'warpmeter_alert_receiver_failing_since_timestamp_seconds{receiver="mail"}': "0x9 600x100"}, quiet=15
    ),
    "WarpmeterReportsFail": Case(
        90, {'warpmeter_report_deliveries_total{target="mail",outcome="gave_up"}': "_x80 1x100"}, quiet=70
    ),
    "WarpmeterEngineErrors": Case(
        30, {'warpmeter_engine_requests_total{method="POST",status="500"}': "0x5 0+60x100"}, quiet=10
    ),
    "WarpmeterPageErrors": Case(30, {'warpmeter_web_requests_total{route="/",status="500"}': "0x5 0+60x100"}, quiet=10),
    "WarpmeterPageSlow": Case(40, {'warpmeter_web_request_seconds_bucket{le="1"}': "0x100"}, quiet=10),
}  # fmt: skip


def _test(series: Mapping[str, str], moments: Mapping[int, str]) -> dict[str, Any]:
    """One of promtool's tests: which alerts fire at which minutes, '' for none."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else [],
            }
            for minute, name in moments.items()
        ],
    }


@pytest.mark.long
def test_each_alert_fires_when_it_should_alone_and_none_in_healthy_hours(tmp_path: Path) -> None:
    assert set(CASES) == set(ALERTS)
    tests = [_test(HEALTHY, {5: "", 60: "", MINUTES: ""})]
    operator = {name.replace('job="warpmeter', 'job="ns/release-warpmeter'): values for name, values in HEALTHY.items()}
    tests.append(_test(operator, {60: ""}))
    tests += [_test({**HEALTHY, **case.series}, {case.quiet: "", case.at: name}) for name, case in CASES.items()]
    file = tmp_path / "rules.test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(
        [_tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_rules_and_example() -> None:
    for asked in (("rules", RULES), ("config", CONFIG)):
        done = subprocess.run(
            [_tool("promtool"), "check", *map(str, asked)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


# --- a real Prometheus --------------------------------------------------------------------------------------------


def _asked(port: int, path: str, **query: str) -> Any:
    """What Prometheus' API answers; errors too, for they say what is wrong."""
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Prometheus with the example's configuration, its agent one that is to run on the second port given."""
    own, agent = free_ports(2)
    config = yaml.safe_load(CONFIG.read_text())
    config["global"]["scrape_interval"] = "1s"
    config["rule_files"] = [str(RULES)]
    (job,) = [each for each in config["scrape_configs"] if each["job_name"] == "warpmeter-agent"]
    job["static_configs"], job["scrape_interval"] = [{"targets": [f"127.0.0.1:{agent}"]}], "1s"
    config["scrape_configs"] = [job]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        _tool("prometheus"),
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
    ]
    with (tmp_path / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
        try:
            yield own, agent
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.long
def test_a_real_prometheus_scrapes_an_agent_and_takes_every_expression(
    prometheus: tuple[int, int], tmp_path: Path
) -> None:
    own, agent = prometheus
    settings = agents.settings(tmp_path, Kafka(bootstrap_servers="127.0.0.1:1"), outputs=("prometheus",))
    settings = replace(settings, metrics=Metrics(agent_port=agent))

    def scraped() -> bool:
        try:
            return bool(_asked(own, "query", query="warpmeter_source_up == 1")["result"])
        except OSError:
            return False

    with agents.running(settings, log=tmp_path / "log"):
        until(scraped, "Prometheus to have scraped the agent")
        (up,) = _asked(own, "query", query='up{job="warpmeter-agent"}')["result"]
        assert up["value"][1] == "1"
        for expr in SHOWN:
            answer = _asked(own, "query", query=expr.replace("$__rate_interval", "1m"))
            assert answer["resultType"] == "vector", expr
        names = set(_asked(own, "label/__name__/values"))
        assert "warpmeter_source_read_seconds" in names
        assert [name for name in names if name.startswith("warpmeter_host_")] == []  # what it measures is left out
    rules = {rule["name"]: rule for group in _asked(own, "rules")["groups"] for rule in group["rules"]}
    assert set(rules) == set(ALERTS)
    assert {rule["health"] for rule in rules.values()} <= {"ok", "unknown"}
