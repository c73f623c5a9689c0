"""deploy/helm: Helm renders it, Kubernetes' schemas take it, and what it says of warpmeter is so."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deployed import DEPLOY, ROOT, loaded, parsed
from tests.deploytools import HELM, KUBECONFORM, KUBERNETES, TEMPLATE, found, schemas
from warpmeter import __version__, selfmetrics
from warpmeter.settings import Metrics, Settings, Web

pytestmark = pytest.mark.long
CHART: Final = DEPLOY / "helm" / "warpmeter"
VALUES: Final = sorted(file.stem for file in (CHART / "ci").glob("*.yaml"))
ADDRESS: Final = {"status.podIP": "10.1.2.3", "spec.nodeName": "gpu-0001"}
Objects = list[dict[str, Any]]


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """One run of it."""
    return subprocess.run([found(HELM), *words], capture_output=True, text=True, timeout=120)


def rendered(values: str, *more: str) -> str:
    """The chart with these values, as YAML; fails with what Helm says."""
    file = CHART / "ci" / f"{values}.yaml"
    done = helm("template", "gpu", CHART, "--kube-version", KUBERNETES, "-n", "warpmeter", "-f", file, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def everything() -> dict[str, str]:
    """The chart with each of the values in ci/."""
    return {values: rendered(values) for values in VALUES}


@pytest.fixture(scope="module")
def objects(everything: dict[str, str]) -> dict[str, Objects]:
    """The same, read."""
    return {name: [each for each in yaml.safe_load_all(text) if each] for name, text in everything.items()}


@pytest.fixture(scope="module")
def judged() -> Callable[[str], list[dict[str, Any]]]:
    """What kubeconform says of YAML: those that are not valid."""
    line = [found(KUBECONFORM), "-strict", "-output", "json", "-schema-location", f"{schemas()}/{TEMPLATE}", "-"]

    def judge(text: str) -> list[dict[str, Any]]:
        done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=120)
        wrong: list[dict[str, Any]] = json.loads(done.stdout)["resources"]
        assert (done.returncode != 0) == bool(wrong), done.stderr
        return wrong

    return judge


def pods(objects: Objects) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """(part, pod spec, labels) of all that makes pods."""
    for each in objects:
        template = each.get("spec", {}).get("template")
        if template and "containers" in template.get("spec", {}):
            labels = template["metadata"]["labels"]
            yield str(labels["app.kubernetes.io/component"]), template["spec"], labels


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Its variables, with what the node would tell."""
    given = {}
    for each in container["env"]:
        place = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        given[each["name"]] = ADDRESS[place] if place else each["value"]
    return given


def settings(objects: Objects, pod: dict[str, Any], folder: Path) -> Settings:
    """What the part of that pod would run with: settings file, secrets that are mounted, variables."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    named = volumes["settings"]["configMap"]["name"]
    (chosen,) = [each for each in objects if each["kind"] == "ConfigMap" and each["metadata"]["name"] == named]
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "warpmeter.toml").write_text(chosen["data"]["warpmeter.toml"])
    for item in volumes.get("secrets", {}).get("secret", {}).get("items", ()):
        (folder / "secrets" / item["path"]).write_text("https://user:0123456789abcdef@store:8443\n")
    (container,) = pod["containers"]
    places = {"/etc/warpmeter/secrets": folder / "secrets", "/etc/warpmeter/warpmeter.toml": folder / "warpmeter.toml"}
    return loaded(environment(container), places, folder)


@pytest.mark.parametrize("values", VALUES)
def test_lint_finds_nothing(values: str) -> None:
    done = helm("lint", "--strict", CHART, "-f", CHART / "ci" / f"{values}.yaml")
    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout


def test_kubernetes_takes_all_of_it(everything: dict[str, str], judged: Callable[[str], list[dict[str, Any]]]) -> None:
    for text in everything.values():
        assert judged(text) == []


def test_the_judge_finds_a_word_too_many(
    everything: dict[str, str], judged: Callable[[str], list[dict[str, Any]]]
) -> None:
    text = everything["everything"]
    for right, wrong in (("hostPID: true", "hostPid: true"), ("maxReplicaCount:", "maxReplicas:")):
        assert right in text
        assert len(judged(text.replace(right, wrong))) == 1


def test_every_container_runs_a_command_with_settings_that_hold(objects: dict[str, Objects], tmp_path: Path) -> None:
    commands = {}
    for name, each in objects.items():
        for part, pod, _ in pods(each):
            (tmp_path / name).mkdir(exist_ok=True)
            got = settings(each, pod, tmp_path / name)
            (container,) = pod["containers"]
            commands[part, container["name"]] = parsed(container["args"])
            assert got.kafka.bootstrap_servers.startswith("kafka")
            if part != "agent":
                assert got.metrics.listen == ("127.0.0.1" if part == "setup" else "0.0.0.0")
            if part in ("setup", "ingest", "scheduler", "web") and container["name"] != "agent":
                assert got.store.dsn == "https://user:0123456789abcdef@store:8443"
    assert commands == {
        ("setup", "topics"): "topics",
        ("setup", "migrate"): "migrate",
        ("agent", "agent"): "agent",
        ("ingest", "ingest"): "ingest",
        ("scheduler", "scheduler"): "schedule",
        ("web", "web"): "web",
    }


def test_what_is_mounted_is_there_and_what_is_there_is_mounted(objects: dict[str, Objects]) -> None:
    for each in objects.values():
        for part, pod, _ in pods(each):
            (container,) = pod["containers"]
            volumes = [volume["name"] for volume in pod["volumes"]]
            assert len(volumes) == len(set(volumes))
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes), part
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths))


def test_probes_ask_ports_that_the_part_listens_on(objects: dict[str, Objects]) -> None:
    metrics, web = Metrics(), Web()
    expected = {
        "agent": {"metrics": metrics.agent_port},
        "ingest": {"metrics": metrics.ingest_port},
        "scheduler": {"metrics": metrics.scheduler_port},
        "web": {"metrics": metrics.web_port, "http": web.port},
    }
    for each in objects.values():
        for part, pod, _ in pods(each):
            (container,) = pod["containers"]
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            assert ports == expected.get(part, {})
            probes = [container[key]["httpGet"] for key in container if key.endswith("Probe")]
            assert {probe["port"] for probe in probes} <= set(ports)
            assert bool(probes) == (part != "setup")


def test_services_monitors_policies_and_budgets_choose_pods_that_there_are(objects: dict[str, Objects]) -> None:
    for each in objects.values():
        there = [labels.items() for _, _, labels in pods(each)]
        for one in each:
            spec = one.get("spec", {})
            chosen = spec.get("podSelector") or spec.get("selector")
            if chosen:
                assert any(chosen.get("matchLabels", chosen).items() <= labels for labels in there), one
        ports = {port["name"] for one in each if one["kind"] == "Service" for port in one["spec"]["ports"]}
        for one in each:
            if one["kind"] == "ServiceMonitor":
                assert {end["port"] for end in one["spec"]["endpoints"]} <= ports


def test_the_operator_is_given_the_rules_of_prometheus_where_they_are_asked_for(objects: dict[str, Objects]) -> None:
    kept = yaml.safe_load((DEPLOY / "prometheus" / "warpmeter.rules.yml").read_text())
    found = {name: [one for one in each if one["kind"] == "PrometheusRule"] for name, each in objects.items()}
    assert [name for name, rules in found.items() if rules] == ["everything"]
    (rules,) = found["everything"]
    assert rules["spec"] == kept
    assert rules["metadata"]["labels"]["release"] == "prometheus", "what the operator's Prometheus selects by"


def test_servers_are_nobody_and_write_nothing_but_their_folders(objects: dict[str, Objects]) -> None:
    for each in objects.values():
        for part, pod, _ in pods(each):
            (container,) = pod["containers"]
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"], part
            assert confined["capabilities"]["drop"] == ["ALL"]
            assert not confined.get("privileged")
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert not pod["automountServiceAccountToken"]
            if part != "agent":
                assert pod["securityContext"]["runAsNonRoot"]
                assert not confined["allowPrivilegeEscalation"]
                assert "add" not in confined["capabilities"]
                assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


OFF: Final = ("nvml", "network", "jobs", "kubelet", "kineto")
"""Sources that are on unless one says otherwise."""
PEER: Final = {"SYS_PTRACE", "DAC_READ_SEARCH"}
SWITCHES: Final[dict[str, tuple[set[str], set[str], bool]]] = {
    "nvml": (set(), set(), True),
    "network": (set(), set(), False),
    "jobs": (PEER, set(), True),
    "kubelet": (set(), {"/host/var/log/pods", "/host/var/log/containers"}, False),
    "podResources": (set(), {"/host/var/lib/kubelet/pod-resources"}, False),
    "runtimeSocket": (set(), {"/host/run/containerd/containerd.sock"}, False),
    "perf": ({"PERFMON"}, set(), False),
    "stacks": (PEER | {"SYS_NICE"}, {"/var/tmp"}, True),
    "kineto": (PEER | {"DAC_OVERRIDE", "FOWNER"}, {"/run/warpmeter/kineto"}, True),
}
"""What one source alone adds: capabilities, places, the host's processes."""


@pytest.mark.parametrize("source", ["", *SWITCHES])
def test_a_source_adds_what_it_needs_and_nothing_else_does(source: str) -> None:
    off = [f"agent.sources.{name}.enabled=false" for name in OFF]
    on = [f"agent.sources.{source}.enabled=true"] if source else []
    needs, places, processes = SWITCHES.get(source, (set(), set(), False))
    root = bool(needs) or source in ("podResources", "runtimeSocket")
    spool = "/var/lib/warpmeter" if root else ""
    sets = [word for one in (*off, *on, f"agent.spool.hostPath={spool}") for word in ("--set", one)]
    text = rendered("plain", "--show-only", "templates/agent.yaml", *sets)
    ((_, pod, _),) = pods([yaml.safe_load(text)])
    (container,) = pod["containers"]
    always = {"/tmp", "/etc/warpmeter/warpmeter.toml", "/var/lib/warpmeter", "/host/proc", "/host/sys"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == always | places
    assert set(container["securityContext"]["capabilities"].get("add", ())) == needs
    assert (pod["securityContext"]["runAsUser"] == 0) == root
    assert pod["securityContext"]["runAsNonRoot"] != root
    assert (pod["hostPID"], pod["hostNetwork"]) == (processes, source == "network")
    read_only = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert {place for place in always | places if place.startswith("/host")} <= read_only


def test_a_source_that_is_off_is_off_in_the_agent(objects: dict[str, Objects], tmp_path: Path) -> None:
    told = {}
    for name, each in objects.items():
        for part, pod, _ in pods(each):
            if part == "agent":
                (tmp_path / name).mkdir(exist_ok=True)
                agent = settings(each, pod, tmp_path / name).agent
                told[name] = (
                    agent.gpu,
                    agent.kineto,
                    agent.stacks,
                    agent.cpu_counters,
                    agent.mounts,
                    agent.stacks_perf,
                )
                assert (agent.root, agent.rpc, agent.host) == (Path("/host"), False, "gpu-0001")
    assert told == {
        "plain": (True, True, False, False, False, "off"),
        "unprivileged": (True, False, False, False, False, "off"),
        "everything": (True, True, True, True, False, "auto"),
        "mounts": (False, True, False, False, True, "off"),
    }


def test_ingest_scales_by_a_metric_that_there_is(objects: dict[str, Objects]) -> None:
    own = selfmetrics.TABLE["warpmeter_ingest_lag_messages"]
    (keda,) = [each for each in objects["everything"] if each["kind"] == "ScaledObject"]
    query = keda["spec"]["triggers"][0]["metadata"]["query"]
    assert query.startswith(f"sum({own.name}{{")
    assert re.search(r'pod=~"gpu-warpmeter-ingest-\.\*"', query)
    (hpa,) = [each for each in objects["unprivileged"] if each["kind"] == "HorizontalPodAutoscaler"]
    assert hpa["spec"]["metrics"][0]["external"]["metric"]["name"] == own.name
    for name in ("everything", "unprivileged"):
        (ingest,) = [
            one for one in objects[name] if one["kind"] == "Deployment" and "ingest" in one["metadata"]["name"]
        ]
        assert "replicas" not in ingest["spec"], "the autoscaler's number is not to be set back by an upgrade"


def test_topics_and_tables_come_before_anything_else(objects: dict[str, Objects]) -> None:
    hooks = [each for each in objects["plain"] if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    order = sorted(hooks, key=lambda each: int(each["metadata"]["annotations"]["helm.sh/hook-weight"]))
    named = [(each["kind"], each["metadata"]["name"].removeprefix("gpu-warpmeter-")) for each in order]
    assert set(named[:2]) == {("ConfigMap", "setup"), ("NetworkPolicy", "setup")}, "what the jobs need to run at all"
    assert named[2:] == [("Job", "topics"), ("Job", "migrate")]
    weights = [int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in order]
    assert weights[1] < weights[2] < weights[3]
    for each in hooks:
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "kafka.bootstrapServers="), "kafka.bootstrapServers is empty"),
        (("--set", "existingSecret="), "reads store-dsn of a secret, and none is named"),
        (("--set", "agent.sources.ethtool.enabled=true"), "'ethtool' not allowed"),
        (("--set", "ingest.autoscaling.kind=keda"), "needs ingest.autoscaling.prometheus"),
        (("--set", "web.ingress.enabled=true"), "web.ingress needs web.hosts"),
        (("--set", "agent.sources.jobs.enabled=false,agent.sources.kineto.enabled=false"), "set agent.spool.hostPath"),
        (("--set", "agent.secretSettings.STORE_DSN=x"), "does not match pattern"),
        (("--set", f"agent.sources.kineto.socketDir=/{'x' * 54}"), "maxLength"),
        (("--set-json", "networkPolicy.kafkaPorts=[]"), "minItems"),
        (("--set-string", "settings=not toml ["), "settings is no TOML, as warpmeter.toml has to be: toml: line 1"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_with_the_reason(words: tuple[str, ...], said: str) -> None:
    file = CHART / "ci" / "plain.yaml"
    done = helm("template", "gpu", CHART, "--kube-version", KUBERNETES, "-f", file, *words)
    assert done.returncode != 0
    assert said in done.stderr


SASL: Final = """
kafka.options = {"security.protocol" = "sasl_ssl", "sasl.mechanism" = "%s", "sasl.username" = "warpmeter"}
"""
PASSWORD: Final = "WARPMETER_KAFKA__OPTIONS__SASL.PASSWORD"


@pytest.mark.parametrize("without", ["setup", "agent", "ingest", "scheduler", "web"])
def test_a_part_without_a_password_is_refused_where_kafka_asks_for_one(without: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"settings": SASL % "SCRAM-SHA-512"}
    for part in ("setup", "agent", "ingest", "scheduler", "web"):
        values[part] = {"secretSettings": {} if part == without else {PASSWORD: "kafka-password"}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    line = ("template", "gpu", CHART, "--kube-version", KUBERNETES, "-f", CHART / "ci" / "plain.yaml")
    done = helm(*line, "-f", tmp_path / "values.yaml")
    assert f"{without} has no password, and settings say SCRAM-SHA-512: add {PASSWORD} to {without}." in done.stderr
    assert done.returncode != 0
    values["settings"] = SASL % "OAUTHBEARER"
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    done = helm(*line, "-f", tmp_path / "values.yaml")
    assert done.returncode == 0, "what has no password needs none"


def documented() -> str:
    """The page of the chart."""
    return (ROOT / "docs" / "deploy" / "kubernetes.md").read_text()


def test_the_page_tells_of_each_source_what_it_adds() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| (\w+) \| (\w+) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", documented())
    assert {row[0] for row in rows} == {*SWITCHES, "mounts"}
    for source, on, who, capabilities, _, more in rows:
        assert (on == "yes") == (source in OFF), source
        if source != "mounts":
            needs, _, processes = SWITCHES[source]
            assert set(re.findall(r"`([A-Z_]+)`", capabilities)) == needs, source
            assert ("hostPID" in more) == processes, source
            assert (who == "root") == (bool(needs) or source in ("podResources", "runtimeSocket")), source


def test_the_values_of_the_page_are_taken(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", documented(), re.DOTALL)
    values = [block for block in blocks if "externalRules" not in block]
    assert len(values) == 2
    for number, block in enumerate(values):
        (tmp_path / f"{number}.yaml").write_text(block)
        text = rendered("plain", "-f", str(tmp_path / f"{number}.yaml"))
        for _, pod, _ in pods(objects := [each for each in yaml.safe_load_all(text) if each]):
            settings(objects, pod, tmp_path)


def test_the_logins_of_the_page_are_one_for_each_part_and_in_its_secrets(tmp_path: Path) -> None:
    (block,) = [one for one in re.findall(r"```yaml\n(.*?)```", documented(), re.DOTALL) if "SASL_SSL" in one]
    (tmp_path / "values.yaml").write_text(block)
    objects = [each for each in yaml.safe_load_all(rendered("plain", "-f", str(tmp_path / "values.yaml"))) if each]
    made: dict[str, set[str]] = {}
    for name, words in re.findall(r"create secret generic (\S+)((?:.*\\\n)*.*)", documented()):
        made[name] = set(re.findall(r"--from-literal=([\w-]+)=", words))  # the later is in place of the earlier
    logins = {}
    for part, pod, _ in pods(objects):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        keys = {item["key"] for item in volumes["secrets"]["secret"]["items"]}
        assert keys <= made[volumes["secrets"]["secret"]["secretName"]], part
        given = {name: value.rpartition("/")[2] for name, value in environment(pod["containers"][0]).items()}
        user, dsn = (
            given.get(f"WARPMETER_{each}_FILE", "") for each in ("KAFKA__OPTIONS__SASL.USERNAME", "STORE__DSN")
        )
        logins[part] = (user, given[f"{PASSWORD}_FILE"], dsn)
        assert settings(objects, pod, tmp_path).kafka.options["security.protocol"] == "SASL_SSL"
    servers = {
        part: (f"{part}-user", f"{part}-password", f"{part}-dsn") for part in ("setup", "ingest", "scheduler", "web")
    }
    assert logins == {"agent": ("", "kafka-password", ""), **servers}


def test_the_rights_of_the_page_are_of_every_part() -> None:
    (line,) = re.findall(r"^warpmeter acls ((?:.*\\\n)*.*)--create", documented(), re.MULTILINE)
    components = set(re.findall(r"--principal (\w+)=User:", line))
    assert components == {"agent", "ingest", "scheduler", "web", "topics", "check"}
    assert {"topics=User:setup", "check=User:setup"} <= set(line.split())


def test_what_the_page_names_is_there() -> None:
    words = ("--set", "ingest.autoscaling.kind=keda", "--set", "ingest.autoscaling.prometheus=http://prometheus:9090")
    file = CHART / "ci" / "plain.yaml"
    text = helm("template", "warpmeter", CHART, "--kube-version", KUBERNETES, "-f", file, *words).stdout
    there = {f"{one['kind']}/{one['metadata']['name']}".lower() for one in yaml.safe_load_all(text) if one}
    kinds = {"deploy": "deployment", "job": "job", "svc": "service"}
    named = re.findall(r"\b(deploy|job|svc)/(warpmeter-\w+)", documented())
    assert {f"{kinds[kind]}/{name}" for kind, name in named} | {"scaledobject/warpmeter-ingest"} <= there


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
