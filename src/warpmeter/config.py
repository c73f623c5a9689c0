"""Read the settings once: what the command line says, then `WARPMETER_*` variables, then the TOML file.

Unknown keys and impossible pairs are refused with the reason. Never imported by the agent.
"""

import dataclasses
import difflib
import ipaddress
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, get_type_hints
from urllib.parse import urlsplit

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from warpmeter import settings as parts
from warpmeter.sending.checking import objection as target_problem
from warpmeter.settings import LOOPBACK, Settings

PREFIX: Final = "WARPMETER_"
PLACES: Final = (Path("warpmeter.toml"), Path("/etc/warpmeter/warpmeter.toml"))
OTHER_VARIABLES: Final = frozenset({"WARPMETER_CONFIG", "WARPMETER_CACHE", "WARPMETER_TANSU", "WARPMETER_STACKS"})
MASK: Final = "********"
IN_FILE: Final = "_FILE"
"""Ends the name of a variable that names the file which holds the value."""
HOST: Final = re.compile(r"^(https?://[^/]*)/.*", re.DOTALL)
IN_QUERY: Final = re.compile(r"((?:password|passwd|token|secret|key)=)[^&\s]+", re.IGNORECASE)
GROUP: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
"""It names a file of the ledger, too."""
ENDPOINT: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
TOKEN_CHARACTERS: Final = 16
WEB_LIMITS: Final = (
    "writes_per_minute", "body_bytes", "query_rows", "query_bytes", "query_memory", "sql_rows", "sql_bytes",
)  # fmt: skip
EXPRESSIONS: Final = ("job_pattern", "job_ignore", "mount_ignore")
SAID: Final = {"tuple_type": "it must be a list, in [ ]", "dict_type": "it must be a table, in { }"}
"""Of pydantic's words those that speak of Python."""
STACKS_PAUSE_S: Final = 3
PERIODS: Final = ("interval_s", "period_s")
HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+: [ -~]*")
URL: Final = re.compile(r"https?://[^/\s]+(/\S*)?")
LISTED: Final = {
    "agent.scrape": parts.Scrape,
    "scheduler.schedules": parts.Schedule,
    "web.tokens": parts.Token,
    "alerts.rules": parts.AlertRule,
    "alerts.receivers": parts.Receiver,
    "alerts.triggers": parts.Trigger,
    "reports.schedules": parts.ReportSchedule,
    "reports.targets": parts.Target,
}
"""Settings that are lists of tables."""
TABLES: Final = {field.name: field for field in dataclasses.fields(Settings)}


class ConfigError(Exception):
    """The settings cannot be used; the message says which key, why, and what to do."""


for _part in (
    parts.Kafka,
    parts.Store,
    parts.Log,
    parts.Metrics,
    parts.Scrape,
    parts.Agent,
    parts.Ingest,
    parts.Engine,
    parts.Traces,
    parts.Schedule,
    parts.Scheduler,
    parts.Token,
    parts.Web,
    parts.AlertRule,
    parts.Receiver,
    parts.Alerts,
    parts.Target,
    parts.ReportSchedule,
    parts.Reports,
):
    setattr(_part, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 - the type does not declare it


class _Reader(BaseSettings):
    """The same tables as `Settings`, still unchecked, merged over the sources by pydantic-settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")

    kafka: dict[str, Any] = {}
    store: dict[str, Any] = {}
    log: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    agent: dict[str, Any] = {}
    ingest: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    traces: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    web: dict[str, Any] = {}
    alerts: dict[str, Any] = {}
    reports: dict[str, Any] = {}

    file: dict[str, Any] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is the library's
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is the library's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment, itself or by files that it names, over file."""
        given = init_settings()
        file = InitSettingsSource(settings_cls, init_kwargs=given.pop("file", {}))
        variables, kept = EnvSettingsSource(settings_cls), InitSettingsSource(settings_cls, init_kwargs=_from_files())
        variables.env_vars = {key: it for key, it in variables.env_vars.items() if not _names_a_file(key.upper())}
        return InitSettingsSource(settings_cls, init_kwargs=given), variables, kept, file


def load(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The settings in force.

    `path`: the TOML file, else `$WARPMETER_CONFIG`, else the first of `PLACES` that exists. `overrides`: table ->
    key -> value from the command line. Raises ConfigError for an unreadable file, an unknown key or variable, a
    value of the wrong type, or a pair that cannot work together.
    """
    _refuse_unknown_variables()
    file = _read_toml(_config_path(path))
    if unknown := sorted(file.keys() - TABLES.keys()):
        raise ConfigError(f"unknown table [{unknown[0]}] in the configuration; tables are: {', '.join(TABLES)}")
    try:
        merged = _Reader(file=file, **{table: dict(keys) for table, keys in (overrides or {}).items()})
        tables = {name: _decoded(name, getattr(merged, name)) for name in TABLES}
        settings = TypeAdapter(Settings).validate_python(tables)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"a WARPMETER_ variable holds broken JSON: {error}") from error
    _refuse_impossible(settings)
    return settings


def shown(settings: Settings) -> dict[str, Any]:
    """The settings as nested dicts with secrets masked: for logs, `doctor` and `--check`."""
    return {name: _masked(getattr(settings, name)) for name in TABLES}


def _decoded(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Maps and lists may come from a variable, where they are JSON: WARPMETER_KAFKA__OPTIONS='{"…": "…"}'.

    What is to be text is left alone: an expression may begin with a bracket as well.
    """
    wanted = get_type_hints(type(getattr(Settings(), name)))
    return {
        key: json.loads(value) if _is_json(value) and wanted.get(key) is not str else value
        for key, value in table.items()
    }


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("{", "[")


def masked_url(url: str) -> str:
    """A URL with its password masked, and what its query calls a password, token or key.

    A password that is not encoded may hold `/` and `@`: all up to the last `@` is taken for it.
    """
    return IN_QUERY.sub(rf"\1{MASK}", re.sub(r"(://[^/@:]*:)\S+@", rf"\1{MASK}@", url))


def _masked(part: Any) -> dict[str, Any]:
    return {field.name: _masked_value(field, getattr(part, field.name)) for field in dataclasses.fields(part)}


def _masked_value(field: dataclasses.Field[Any], value: Any) -> Any:
    if isinstance(value, tuple) and any(map(_has_secrets, value)):
        return [_masked(each) for each in value]
    if not field.metadata.get("secret") or not value:
        return masked_url(value) if isinstance(value, str) and "://" in value else value
    if field.metadata["secret"] == "path" and isinstance(value, str):
        return HOST.sub(rf"\1/{MASK}", masked_url(value))
    if isinstance(value, str) and "://" in value:
        return masked_url(value)
    return dict.fromkeys(value, MASK) if isinstance(value, Mapping) else MASK


def _has_secrets(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and any(field.metadata.get("secret") for field in dataclasses.fields(value))


def _config_path(path: Path | None) -> Path | None:
    if path is not None:
        return path
    if named := os.environ.get("WARPMETER_CONFIG"):
        return Path(named)
    return next((place for place in PLACES if place.is_file()), None)


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _known_variable(name: str) -> bool:
    table, _, key = name.removeprefix(PREFIX).lower().partition("__")
    if table not in TABLES:
        return False
    part = type(getattr(Settings(), table))
    return not key or key.partition("__")[0] in {field.name for field in dataclasses.fields(part)}


def _names_a_file(name: str) -> bool:
    """WARPMETER_STORE__DSN_FILE is the file that holds store.dsn, as containers are given their secrets."""
    held = name.removesuffix(IN_FILE)
    if not name.endswith(IN_FILE) or "__" not in held or not _known_variable(held):
        return False
    return held.count("__") > 1 or not _known_variable(name)  # below a key nothing is called _file


def _from_files() -> dict[str, Any]:
    """What variables `WARPMETER_<TABLE>__<KEY>_FILE` name, as nested tables; raises ConfigError."""
    tables: dict[str, Any] = {}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and _names_a_file(name):
            *above, key = name.removeprefix(PREFIX).removesuffix(IN_FILE).lower().split("__")
            place = tables
            for step in above:
                place = place.setdefault(step, {})
            place[key] = _held(name, Path(os.environ[name]))
    return tables


def _held(name: str, path: Path) -> str:
    if name.removesuffix(IN_FILE) in os.environ:
        raise ConfigError(f"both {name} and {name.removesuffix(IN_FILE)} are set: leave one of them out")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{name}: cannot read {path}: {why}") from error
    if not text:
        raise ConfigError(f"{name}: {path} is empty; it must hold the value alone")
    return text


def _refuse_unknown_variables() -> None:
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if not _known_variable(name) and not _names_a_file(name):
            raise ConfigError(f"unknown variable {name}; the form is {PREFIX}<TABLE>__<KEY>, e.g. {PREFIX}STORE__DSN")


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(str(step) for step in problem["loc"])
        unknown = problem["type"] == "unexpected_keyword_argument"
        what = f"unknown key{_meant(*problem['loc'])}" if unknown else SAID.get(problem["type"], problem["msg"])
        if where in LISTED:
            what += f"; each is a table of its own, [[{where}]] in double brackets"
        lines.append(f"{where}: {what}")
    return "the configuration cannot be used:\n  " + "\n  ".join(lines)


def _meant(*where: int | str) -> str:
    *above, key = where
    table = ".".join(str(step) for step in above)
    part = LISTED[f"{above[0]}.{above[1]}"] if len(above) > 1 else type(getattr(Settings(), str(above[0])))
    names = [field.name for field in dataclasses.fields(part)]
    close = difflib.get_close_matches(str(key), names, 1)
    return f"; did you mean {table}.{close[0]}?" if close else f"; [{table}] has {', '.join(names)}"


def _durations(settings: Settings) -> Iterator[tuple[str, float]]:
    """Every setting in seconds, by its full name."""
    named = [(table, getattr(settings, table)) for table in TABLES]
    named += [(f"agent.scrape.{i}", scrape) for i, scrape in enumerate(settings.agent.scrape)]
    named += [(f"reports.targets.{i}", target) for i, target in enumerate(settings.reports.targets)]
    for prefix, part in named:
        for field in dataclasses.fields(part):
            if field.name.endswith("_s"):
                yield f"{prefix}.{field.name}", getattr(part, field.name)


def _refuse_duration(where: str, seconds: float) -> None:
    if not math.isfinite(seconds):
        raise ConfigError(f"{where} = {seconds} is no time: give seconds as a finite number")
    if where.startswith("agent.") and where.endswith(PERIODS) and seconds < 0.1:
        raise ConfigError(f"{where} below 0.1 s: the agent would measure itself")
    if seconds <= 0:
        raise ConfigError(f"{where} = {seconds:g} must be more than 0 s")


def _refuse_scrapes(scrapes: Sequence[parts.Scrape]) -> None:
    names = [scrape.name for scrape in scrapes]
    for name in names:
        if not ENDPOINT.fullmatch(name) or names.count(name) > 1:
            raise ConfigError(f"agent.scrape: {name!r} must be a name of its own, of letters, digits, '.', '_' and '-'")
    for scrape in scrapes:
        if problem := _scrape_problem(scrape):
            raise ConfigError(f"agent.scrape {scrape.name!r}: {problem}")


def _no_expression(key: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        return f"{key} is no regular expression: {error}"
    return ""


def _scrape_problem(scrape: parts.Scrape) -> str:
    if problem := _no_expression("allow", scrape.allow) or _no_expression("deny", scrape.deny):
        return problem
    if not scrape.url.startswith(("http://", "https://")):
        return f"url must start with http:// or https://, not {scrape.url!r}"
    if not (_is_url(scrape.url) and scrape.url.isascii()):
        return f"url {masked_url(scrape.url)!r} is none: give host, port and path, e.g. http://127.0.0.1:9100/metrics"
    if "@" in scrape.url.split("/")[2]:
        return "no credentials in the url: set username and password_file, or token_file"
    if scrape.token_file and scrape.username:
        return "username and token_file cannot both be sent: set one"
    if bool(scrape.username) != bool(scrape.password_file):
        return "username and password_file go together"
    if min(scrape.max_series, scrape.max_bytes) < 1:
        return "max_series and max_bytes must be more than 0"
    return ""


def _refuse_ports(settings: Settings) -> None:
    for table in ("metrics", "engine", "web"):
        for key, port in vars(getattr(settings, table)).items():
            if key.endswith("port") and not 0 <= port <= 65535:
                raise ConfigError(f"{table}.{key} = {port} is no port: they go to 65535")


def _refuse_dsn(dsn: str) -> None:
    """Its password must not be taken for a port or a path: errors of those would show it."""
    try:
        fine = urlsplit(dsn).port != 0
    except ValueError:  # no port
        fine = False
    if not fine:
        raise ConfigError(
            f"store.dsn {masked_url(dsn)!r} is no address: port and name must be in order, and in user and password "
            "each of / ? # @ : [ ] % written as %2F %3F %23 %40 %3A %5B %5D %25"
        )


def _refuse_impossible(settings: Settings) -> None:
    ingest = settings.ingest
    _refuse_topics(settings.kafka)
    _refuse_dsn(settings.store.dsn)
    for where, seconds in _durations(settings):
        _refuse_duration(where, seconds)
    _refuse_scrapes(settings.agent.scrape)
    for key in EXPRESSIONS:
        if problem := _no_expression(key, getattr(settings.agent, key)):
            raise ConfigError(f"agent.{problem}")
    _refuse_stacks(settings.agent)
    _refuse_ports(settings)
    if not GROUP.fullmatch(ingest.group):
        raise ConfigError(
            f"ingest.group {ingest.group!r} is no plain name: use letters, digits, '.', '_' and '-', at most 200"
        )
    if ingest.batch_bytes > ingest.budget_bytes:
        raise ConfigError("ingest.batch_bytes exceeds ingest.budget_bytes: no batch could ever close by size")
    _refuse_outputs(settings.agent, settings.metrics)
    _refuse_profiling(settings.agent, settings.traces)
    _refuse_web(settings.web)
    _refuse_alerts(settings.alerts)
    _refuse_reports(settings.reports)
    if not 0 < ingest.reject_share <= 1:
        raise ConfigError("ingest.reject_share must lie in (0, 1]")
    _refuse_store(settings.store)


def _refuse_store(store: parts.Store) -> None:
    if store.insert_quorum and not store.cluster:
        raise ConfigError("store.insert_quorum needs store.cluster: one server has no replicas")
    if store.shards and not store.cluster:
        raise ConfigError("store.shards needs store.cluster: one server has no shards")
    if not all(each.startswith(("http://", "https://")) for each in store.shards):
        raise ConfigError("store.shards: each must start with http:// or https://")
    if not store.dsn.startswith(("http://", "https://", "chdb://")):
        raise ConfigError("store.dsn must start with http://, https:// or chdb://")
    if store.cold_after_days < 0 or (store.cold_after_days and not store.storage_policy):
        raise ConfigError("store.cold_after_days needs store.storage_policy, and that a volume 'cold'; 0 moves nothing")


def _refuse_topics(kafka: parts.Kafka) -> None:
    if kafka.schema_registry_token and (problem := parts.unsendable(kafka.schema_registry_token)):
        raise ConfigError(f"kafka.schema_registry_token {problem}")
    if kafka.min_insync_replicas is None and not kafka.retention_hours:
        return
    from warpmeter.topics import objection

    if problem := objection(kafka):
        raise ConfigError(problem)


def _refuse_stacks(agent: parts.Agent) -> None:
    if agent.stacks_sampling_s < 1 or not agent.stacks_sampling_s.is_integer():
        raise ConfigError("agent.stacks_sampling_s must be whole seconds, 1 or more: samplers take no other")
    if agent.stacks_interval_s < agent.stacks_sampling_s + STACKS_PAUSE_S:
        raise ConfigError(
            f"agent.stacks_interval_s = {agent.stacks_interval_s:g} must be {STACKS_PAUSE_S} s longer than "
            "agent.stacks_sampling_s, or more: one turn ends before the next begins"
        )
    if not 1 <= agent.stacks_rate_hz <= 1000:
        raise ConfigError("agent.stacks_rate_hz must lie between 1 and 1000 samples a second")
    if agent.stacks_processes < 1:
        raise ConfigError("agent.stacks_processes must be 1 or more; agent.stacks = false samples none")
    for pattern, into in agent.stacks_paths.items():
        if problem := _no_replacement(pattern, into):
            raise ConfigError(f"agent.stacks_paths: {problem}")


def _no_replacement(pattern: str, into: str) -> str:
    try:
        re.compile(pattern).sub(into, "")
        re.compile(f"{pattern}|").sub(into, "")  # the template is looked at only where something matches
    except (re.error, IndexError) as error:
        return f"{pattern!r} = {into!r} replaces nothing: {error}"
    return ""


def _refuse_profiling(agent: parts.Agent, traces: parts.Traces) -> None:
    if not agent.kineto_socket_dir.is_absolute():
        raise ConfigError("agent.kineto_socket_dir must be absolute: PyTorch compares it with KINETO_IPC_SOCKET_DIR")
    if not 0 < agent.rpc_port <= 65535:
        raise ConfigError(f"agent.rpc_port = {agent.rpc_port} is no port: they go from 1 to 65535")
    if bool(agent.rpc_tls_certificate) != bool(agent.rpc_tls_key):
        raise ConfigError("agent.rpc_tls_certificate and agent.rpc_tls_key go together")
    beyond = not agent.rpc_address.startswith(LOOPBACK)
    if agent.rpc and beyond and not (agent.rpc_tls_certificate and agent.rpc_token):
        raise ConfigError(
            f"agent.rpc_address {agent.rpc_address} is not loopback: anybody could trace jobs; give "
            "agent.rpc_tls_certificate, agent.rpc_tls_key and agent.rpc_token"
        )
    if "://" not in traces.url and not Path(traces.url).is_absolute():
        raise ConfigError(f"traces.url {traces.url!r} must be an absolute folder, or a URL such as s3://bucket/traces")
    if traces.max_file_bytes < 1:
        raise ConfigError("traces.max_file_bytes must be more than 0")
    if traces.keep_days < 0 or traces.keep_bytes < 0:
        raise ConfigError("traces.keep_days and traces.keep_bytes must not be less than 0, which is no limit")


def _refuse_triggers(triggers: tuple[parts.Trigger, ...]) -> None:
    if not triggers:
        return
    from warpmeter.alerts.triggering import objection

    names = [trigger.name for trigger in triggers]
    for trigger in triggers:
        if problem := _name_problem(trigger.name, names) or objection(trigger):
            raise ConfigError(f"alerts.triggers {trigger.name!r}: {problem}")


def _refuse_alerts(alerts: parts.Alerts) -> None:
    if alerts.evaluate_s < 1:
        raise ConfigError("alerts.evaluate_s must be 1 s or more: rules are questions to the store")
    if alerts.flaps < 2:
        raise ConfigError("alerts.flaps must be 2 or more: what fires once is not flapping")
    if alerts.rule_memory < 1 << 20:
        raise ConfigError("alerts.rule_memory below 1 MiB: no rule could be evaluated")
    _refuse_receivers(alerts.receivers)
    _refuse_triggers(alerts.triggers)
    if alerts.rules or alerts.receivers or alerts.triggers:
        _refuse_rules(alerts)


def _refuse_rules(alerts: parts.Alerts) -> None:
    from warpmeter.alerts.configured import rules, stray
    from warpmeter.alerts.rule import RuleError

    try:
        rules(alerts)
    except RuleError as error:
        raise ConfigError(f"alerts.rules: {error}") from error
    told = [(f"alerts.triggers {each.name!r}: match", each.match) for each in alerts.triggers]
    told += [(f"alerts.receivers {each.name!r}: routes", route) for each in alerts.receivers for route in each.routes]
    for where, matchers in told:
        if why := stray(alerts, matchers):
            raise ConfigError(f"{where}: {why}")


def _refuse_web(web: parts.Web) -> None:
    if not web.loopback and not web.guarded:
        raise ConfigError(
            f"web.listen {web.listen} is not loopback: anybody could look, and trace jobs; say who may with "
            "[[web.tokens]], or with web.proxies (docs/web.md)"
        )
    names = [token.name for token in web.tokens]
    for token in web.tokens:
        if problem := _token_problem(token, names):
            raise ConfigError(f"web.tokens {token.name!r}: {problem}")
    if 0 < len(web.session_secret) < TOKEN_CHARACTERS:
        raise ConfigError(f"web.session_secret is too short: give {TOKEN_CHARACTERS} characters or more")
    if bool(web.tls_certificate) != bool(web.tls_key):
        raise ConfigError("web.tls_certificate and web.tls_key go together")
    for proxy in web.proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ConfigError(f"web.proxies: {error}; give addresses or networks, e.g. 10.1.2.0/24") from error
    _refuse_web_limits(web)


def _refuse_receivers(receivers: Sequence[parts.Receiver]) -> None:
    if not receivers:
        return
    from warpmeter.alerts.receiving import objection

    names = [receiver.name for receiver in receivers]
    for receiver in receivers:
        if problem := _name_problem(receiver.name, names) or objection(receiver):
            raise ConfigError(f"alerts.receivers {receiver.name!r}: {problem}")


def _refuse_reports(reports: parts.Reports) -> None:
    if "://" not in reports.url and not Path(reports.url).is_absolute():
        raise ConfigError(
            f"reports.url {reports.url!r} must be an absolute folder, or a URL such as s3://bucket/reports"
        )
    for key in ("keep_days", "price_per_kwh", "price_per_gpu_hour"):
        if not 0 <= getattr(reports, key) < math.inf:
            raise ConfigError(f"reports.{key} must be a number, and not below 0")
    if reports.page and not _is_url(reports.page):
        raise ConfigError(f"reports.page {masked_url(reports.page)!r} is no URL: e.g. https://warpmeter.example")
    targets = [target.name for target in reports.targets]
    for target in reports.targets:
        if problem := _name_problem(target.name, targets) or target_problem(target):
            raise ConfigError(f"reports.targets {target.name!r}: {problem}")
    names = [schedule.name for schedule in reports.schedules]
    for schedule in reports.schedules:
        if problem := _name_problem(schedule.name, names) or _report_problem(schedule, targets):
            raise ConfigError(f"reports.schedules {schedule.name!r}: {problem}")


def _name_problem(name: str, names: Sequence[str]) -> str:
    plain = ENDPOINT.fullmatch(name) and names.count(name) == 1
    return "" if plain else "give each a name of its own, of letters, digits, '.', '_' and '-'"


def _report_problem(schedule: parts.ReportSchedule, targets: Sequence[str]) -> str:
    """All that is wrong with a schedule, '' where nothing is."""
    return "; ".join(_report_problems(schedule, targets))


def _report_problems(schedule: parts.ReportSchedule, targets: Sequence[str]) -> Iterator[str]:
    there, of_job = ", ".join(targets) or "none yet", schedule.report == "job"
    if not schedule.targets:
        yield f"targets is empty: name one or more of [[reports.targets]], which has {there}"
    for name in schedule.targets:
        if name not in targets:
            yield f"there is no target {name!r}; [[reports.targets]] has {there}"
    if of_job and schedule.cron:
        yield "report job is made of each job that ended: leave cron out"
    elif not of_job and not schedule.cron:
        yield "cron is needed, e.g. cron = '0 7 * * mon', and timezone beside it"
    if not of_job and (schedule.where or schedule.min_gpu_hours):
        yield "where and min_gpu_hours are of report job alone"
    if not 0 <= schedule.min_gpu_hours < math.inf:
        yield "min_gpu_hours must be a number, and not below 0"
    if find_spec("apscheduler") is not None:  # else there is no scheduler here, and the one that is there refuses it
        from warpmeter.reports.periods import objection

        if problem := objection(schedule):
            yield problem


def _token_problem(token: parts.Token, names: Sequence[str]) -> str:
    if not ENDPOINT.fullmatch(token.name) or names.count(token.name) > 1:
        return "give each a name of its own, of letters, digits, '.', '_' and '-'"
    if bool(token.token) == bool(token.token_file):
        return "give token, or token_file: one of them"
    if token.token and len(token.token) < TOKEN_CHARACTERS:
        return (
            f"token is too short to be one: give {TOKEN_CHARACTERS} characters or more, e.g. of `openssl rand -hex 24`"
        )
    if problem := parts.unsendable(token.token):
        return f"token {problem}"
    return ""


def _refuse_web_limits(web: parts.Web) -> None:
    for key in WEB_LIMITS:
        if getattr(web, key) < 1:
            raise ConfigError(f"web.{key} must be more than 0")
    for key in ("user_header", "groups_header"):
        if not HEADER.fullmatch(f"{getattr(web, key)}: "):
            raise ConfigError(f"web.{key} {getattr(web, key)!r} is no name of a header")


def _is_url(text: str) -> bool:
    try:
        return URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # no port
        return False


def _refuse_outputs(agent: parts.Agent, metrics: parts.Metrics) -> None:
    outputs = agent.outputs
    if not outputs:
        raise ConfigError("agent.outputs is empty: name one of kafka, stdout, prometheus, otlp")
    if twice := [name for name in outputs if outputs.count(name) > 1]:
        raise ConfigError(f"agent.outputs names {twice[0]} twice")
    if "prometheus" in outputs and not metrics.agent_port:
        raise ConfigError("agent.outputs has prometheus, and metrics.agent_port = 0 serves nothing: give it a port")
    if "otlp" in outputs and not _is_url(agent.otlp_url):
        raise ConfigError(
            f"agent.outputs has otlp, and agent.otlp_url {masked_url(agent.otlp_url)!r} is no URL: "
            "give the collector's address, e.g. http://127.0.0.1:4318"
        )
    if unfit := [name for name, value in agent.otlp_headers.items() if not HEADER.fullmatch(f"{name}: {value}")]:
        raise ConfigError(f"agent.otlp_headers.{unfit[0]} is no HTTP header: a name, and a value on one line in ASCII")
    if agent.otlp_queue_max_bytes < 1 << 16:
        raise ConfigError("agent.otlp_queue_max_bytes below 64 KiB: not one export would fit")
