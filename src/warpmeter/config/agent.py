"""What an agent could not do, or should not."""

import re
from pathlib import Path
from typing import Final

from warpmeter import settings as parts
from warpmeter.config.known import ConfigError
from warpmeter.config.masking import masked_url
from warpmeter.config.words import HEADER, is_url, refuse_any
from warpmeter.settings import LOOPBACK

EXPRESSIONS: Final = ("job_pattern", "job_ignore", "mount_ignore")
STACKS_PAUSE_S: Final = 3


def refuse_agent(agent: parts.Agent, traces: parts.Traces, metrics: parts.Metrics) -> None:
    """Raises ConfigError for what does not fit together in an agent."""
    refuse_any("agent.scrape", agent.scrape, _scrape_problem)
    for key in EXPRESSIONS:
        if problem := _no_expression(key, getattr(agent, key)):
            raise ConfigError(f"agent.{problem}")
    _refuse_stacks(agent)
    _refuse_outputs(agent, metrics)
    _refuse_profiling(agent, traces)


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
    if not (is_url(scrape.url) and scrape.url.isascii()):
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


def _refuse_outputs(agent: parts.Agent, metrics: parts.Metrics) -> None:
    outputs = agent.outputs
    if not outputs:
        raise ConfigError("agent.outputs is empty: name one of kafka, stdout, prometheus, otlp")
    if twice := [name for name in outputs if outputs.count(name) > 1]:
        raise ConfigError(f"agent.outputs names {twice[0]} twice")
    if "prometheus" in outputs and not metrics.agent_port:
        raise ConfigError("agent.outputs has prometheus, and metrics.agent_port = 0 serves nothing: give it a port")
    if "otlp" in outputs and not is_url(agent.otlp_url):
        raise ConfigError(
            f"agent.outputs has otlp, and agent.otlp_url {masked_url(agent.otlp_url)!r} is no URL: "
            "give the collector's address, e.g. http://127.0.0.1:4318"
        )
    if unfit := [name for name, value in agent.otlp_headers.items() if not HEADER.fullmatch(f"{name}: {value}")]:
        raise ConfigError(f"agent.otlp_headers.{unfit[0]} is no HTTP header: a name, and a value on one line in ASCII")
    if agent.otlp_queue_max_bytes < 1 << 16:
        raise ConfigError("agent.otlp_queue_max_bytes below 64 KiB: not one export would fit")
