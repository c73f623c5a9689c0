"""Settings: one file, one set of variables, and a clear refusal of everything else."""

import dataclasses
import os
from pathlib import Path

import pytest

from warpmeter import config
from warpmeter.config import sources
from warpmeter.settings import Scrape, Settings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WARPMETER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str) -> Path:
    path = Path("given.toml")
    path.write_text(text)
    return path


def test_without_file_and_variables_the_defaults_hold() -> None:
    assert config.load() == Settings()


def test_option_wins_over_variable_and_variable_over_file(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('[store]\ndsn = "http://file:8123"\ndatabase = "of_file"\n[agent]\ninterval_s = 5\n')
    monkeypatch.setenv("WARPMETER_STORE__DSN", "http://variable:8123")
    monkeypatch.setenv("WARPMETER_AGENT__INTERVAL_S", "2")
    loaded = config.load(path, {"agent": {"interval_s": 0.5}})
    assert loaded.store.dsn == "http://variable:8123"
    assert loaded.store.database == "of_file"
    assert loaded.agent.interval_s == 0.5


def test_maps_and_lists_come_from_variables_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPMETER_KAFKA__OPTIONS", '{"sasl.mechanism": "SCRAM-SHA-512"}')
    monkeypatch.setenv("WARPMETER_INGEST__TOPICS", '["gpu-samples"]')
    loaded = config.load()
    assert loaded.kafka.options == {"sasl.mechanism": "SCRAM-SHA-512"}
    assert loaded.ingest.topics == ("gpu-samples",)


def test_a_prefix_of_topics_may_have_parts() -> None:
    assert config.load(write("[kafka]\ntopic_prefix = 'site-1.fleet_A'\n")).kafka.topic_prefix == "site-1.fleet_A"


def test_groups_that_are_not_said_are_called_by_the_prefix() -> None:
    loaded = config.load(write("[kafka]\ntopic_prefix = 'teamB'\n[scheduler]\ngroup = 'ours'\n"))
    assert (loaded.ingest.group, loaded.scheduler.group) == ("teamB-ingest", "ours")
    assert (Settings().ingest.group, Settings().scheduler.group) == ("warpmeter-ingest", "warpmeter-scheduler")


def scrape(name: str, more: str = "") -> str:
    """An endpoint in TOML."""
    return f"[[agent.scrape]]\nname = '{name}'\nurl = 'http://127.0.0.1:9400/metrics'\n{more}\n"


def test_an_expression_may_begin_with_a_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPMETER_AGENT__JOB_IGNORE", "[0-9]+")
    agent = config.load(write("[agent]\njob_pattern = '[a-z]*sh/.*python'\n")).agent
    assert (agent.job_pattern, agent.job_ignore) == ("[a-z]*sh/.*python", "[0-9]+")


def test_a_list_of_tables_becomes_scrape_targets() -> None:
    path = write('[[agent.scrape]]\nname = "dcgm"\nurl = "http://127.0.0.1:9400/metrics"\n')
    assert [each.name for each in config.load(path).agent.scrape] == ["dcgm"]


def test_the_endpoints_of_the_documentation_can_be_used() -> None:
    text = (Path(__file__).parents[2] / "docs" / "scraping.md").read_text()
    found = config.load(write(text.partition("```toml\n")[2].partition("```")[0])).agent.scrape
    assert [(each.name, each.page) for each in found] == [
        ("vllm", "any"), ("node", "any"), ("dcgm", "dcgm"), ("pcm", "pcm"),
    ]  # fmt: skip
    labels = {"engine": "", "model_name": "model"}
    vllm = Scrape("vllm", "http://127.0.0.1:8000/metrics", allow="vllm:.*", deny=".*_created", labels=labels)
    assert found[0] == vllm


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[store]\ndns = 'x'\n", "store.dns: unknown key"),
        ("[stor]\ndsn = 'x'\n", "unknown table [stor]"),
        ("[agent]\ninterval_s = 'fast'\n", "agent.interval_s"),
        ("[store]\ndsn = 'mysql://x'\n", "store.dsn must start with"),
        ("[ingest]\nbatch_bytes = 99999999999\n", "no batch could ever close"),
        ("[store]\ninsert_quorum = true\n", "needs store.cluster"),
        ("[agent]\ninterval_s = 0.01\n", "measure itself"),
        ("[agent]\ninterval_s = nan\n", "agent.interval_s = nan is no time"),
        ("[agent]\ndevice_interval_s = inf\n", "agent.device_interval_s = inf is no time"),
        ("[agent]\nmount_ignore = '('\n", "agent.mount_ignore is no regular expression"),
        ("[agent]\njob_pattern = '('\n", "agent.job_pattern is no regular expression"),
        ("[agent]\njob_ignore = '*'\n", "agent.job_ignore is no regular expression"),
        ("[agent]\nstacks_sampling_s = 0.5\n", "agent.stacks_sampling_s must be whole seconds"),
        ("[agent]\nstacks_interval_s = 12\n", "agent.stacks_interval_s = 12 must be 3 s longer"),
        ("[agent]\nstacks_rate_hz = 0\n", "agent.stacks_rate_hz must lie between 1 and 1000"),
        ("[agent]\nstacks_processes = 0\n", "agent.stacks = false samples none"),
        ("[agent]\nstacks_perf = 'yes'\n", "agent.stacks_perf"),
        ("[agent.stacks_paths]\n'(' = ''\n", "agent.stacks_paths: '(' = '' replaces nothing"),
        ("[agent.stacks_paths]\n'a' = '\\1'\n", "replaces nothing: invalid group reference"),
        ("[agent]\noutputs = 'stdout'\n", "agent.outputs: it must be a list"),
        ("[agent.scrape]\nname = 'a'\nurl = 'http://b/'\n", "[[agent.scrape]] in double brackets"),
        (scrape("a", "alow = 'x'"), "agent.scrape.0.alow: unknown key; did you mean agent.scrape.0.allow?"),
        ("[metrics]\nagent_port = 99999\n", "metrics.agent_port = 99999 is no port"),
        ("[engine]\nport = -1\n", "engine.port = -1 is no port"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'http://b:99999/'\n", "url 'http://b:99999/' is none"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'http://[::1/'\n", "url 'http://[::1/' is none"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'http:///metrics'\n", "url 'http:///metrics' is none"),
        ("[agent]\nhealth_interval_s = 0\n", "agent.health_interval_s below 0.1 s"),
        ("[agent]\njob_interval_s = -2\n", "agent.job_interval_s below 0.1 s"),
        ("[agent]\nspool_max_age_s = 0\n", "agent.spool_max_age_s = 0 must be more than 0 s"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'b'\nperiod_s = -1\n", "agent.scrape.0.period_s below 0.1 s"),
        (scrape("a", "deny = '('"), "agent.scrape 'a': deny is no regular expression"),
        (scrape("a", "username = 'x'"), "username and password_file go together"),
        (scrape("a", "username = 'x'\npassword_file = 'p'\ntoken_file = 'y'"), "cannot both be sent"),
        (scrape("a", "max_series = 0"), "max_series and max_bytes must be more than 0"),
        (scrape("a", "page = 'nvml'"), "agent.scrape.0.page"),
        (scrape("a") + scrape("a"), "'a': give each a name of its own"),
        (scrape("a/b"), "'a/b': give each a name of its own"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'localhost:9400'\n", "url must start with http:// or https://"),
        ("[[agent.scrape]]\nname = 'a'\nurl = 'http://me:pw@host/'\n", "no credentials in the url"),
        ("[ingest]\nbatch_age_s = nan\n", "ingest.batch_age_s = nan is no time"),
        ("[ingest]\nsettle_after_s = -1\n", "ingest.settle_after_s = -1 must be more than 0 s"),
        ("[ingest]\ngroup = '../../x'\n", "ingest.group '../../x' is no plain name"),
        ('[ingest]\ngroup = "a\\n"\n', "is no plain name"),
        ("[kafka]\ntopic_prefix = 'fleet.'\n", "kafka.topic_prefix 'fleet.' is no beginning of a topic's name"),
        ("[kafka]\ntopic_prefix = '.fleet'\n", "without a dot at either end"),
        ("[kafka]\ntopic_prefix = ''\n", "kafka.topic_prefix '' is no beginning"),
        ("[kafka]\ntopic_prefix = 'a fleet'\n", "use letters, digits"),
        ("[agent]\noutputs = []\n", "agent.outputs is empty"),
        (
            "[agent]\noutputs = ['files']\n",
            "agent.outputs.0: Input should be 'kafka', 'stdout', 'prometheus' or 'otlp'",
        ),
        ("[agent]\noutputs = ['kafka', 'kafka']\n", "agent.outputs names kafka twice"),
        ("[agent]\noutputs = ['prometheus']\n[metrics]\nagent_port = 0\n", "metrics.agent_port = 0 serves nothing"),
        ("[agent]\noutputs = ['otlp']\n", "agent.otlp_url '' is no URL"),
        ("[agent]\noutputs = ['otlp']\notlp_url = 'collector:4318'\n", "is no URL: give the collector's address"),
        ("[agent]\noutputs = ['otlp']\notlp_url = 'http://c:http'\n", "agent.otlp_url 'http://c:http' is no URL"),
        ('[agent]\notlp_headers = {a = "b\\nc"}\n', "agent.otlp_headers.a is no HTTP header"),
        ("[agent]\nnames = 'nagios'\n", "agent.names: Input should be 'warpmeter' or 'dynolog'"),
        ("[agent]\notlp_queue_max_bytes = 9\n", "not one export would fit"),
        ("[agent]\notlp_interval_s = 0.01\n", "agent.otlp_interval_s below 0.1 s"),
        ("[agent]\nkineto_socket_dir = 'here'\n", "agent.kineto_socket_dir must be absolute"),
        ("[agent]\nrpc_port = 0\n", "agent.rpc_port = 0 is no port"),
        ("[agent]\nrpc_tls_key = '/k'\n", "go together"),
        ("[agent]\nrpc_address = '0.0.0.0'\n", "agent.rpc_address 0.0.0.0 is not loopback"),
        ("[traces]\nurl = 'traces'\n", "traces.url 'traces' must be an absolute folder"),
        ("[traces]\nmax_file_bytes = 0\n", "traces.max_file_bytes must be more than 0"),
        ("[traces]\ncompression = 'xz'\n", "traces.compression"),
        ("this is not toml", "not valid TOML"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(config.ConfigError) as refused:
        config.load(write(text))
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["WARPMETER_STORE__DNS", "WARPMETER_STOR__DSN", "WARPMETER_DSN"])
def test_an_unknown_variable_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(config.ConfigError, match=f"unknown variable {name}"):
        config.load()


def test_an_unreadable_file_is_named() -> None:
    with pytest.raises(config.ConfigError, match=r"cannot read the configuration missing\.toml"):
        config.load(Path("missing.toml"))


def test_a_file_that_is_not_utf8_is_one_line() -> None:
    path = Path("given.toml")
    path.write_bytes("[agent]\nhost = 'K\u00f6ln'\n".encode("latin-1"))
    with pytest.raises(
        config.ConfigError, match=r"^given\.toml is not UTF-8 text \(.* at byte 17\): save it as UTF-8$"
    ):
        config.load(path)


def test_secrets_are_masked_when_shown() -> None:
    settings = config.load(
        overrides={
            "store": {"dsn": "https://reader:hunter2@db:8443"},
            "kafka": {"options": {"sasl.password": "hunter2"}},
            "engine": {"write_token": "hunter2"},
            "agent": {"otlp_url": "https://me:hunter2@otlp:4318", "otlp_headers": {"authorization": "hunter2"}},
        }
    )
    shown = config.shown(settings)
    assert "hunter2" not in str(shown)
    assert shown["store"]["dsn"] == f"https://reader:{config.MASK}@db:8443"


def test_of_kafkas_options_those_that_tell_the_login_are_shown_and_all_others_masked() -> None:
    endpoint = "https://me:hunter2@login.example/token?client_secret=hunter2"
    plain = {"security.protocol": "SASL_SSL", "sasl.username": "ann", "ssl.ca.location": "/etc/ca.pem"}
    secret = dict.fromkeys(
        ("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.config",
         "sasl.oauthbearer.client.secret", "sasl.jaas.config", "sasl.kerberos.kinit.cmd", "of.a.later.version"),
        "hunter2",
    )  # fmt: skip
    options = {**plain, **secret, "sasl.oauthbearer.token.endpoint.url": endpoint}
    shown = config.shown(config.load(overrides={"kafka": {"options": options}}))["kafka"]["options"]
    assert "hunter2" not in str(shown)
    assert shown["sasl.oauthbearer.token.endpoint.url"].startswith("https://me:")
    assert {name: shown[name] for name in plain} == plain
    assert {name: shown[name] for name in secret} == dict.fromkeys(secret, config.MASK)


def test_every_table_of_the_settings_is_read() -> None:
    names = {field.name for field in dataclasses.fields(Settings)}
    assert names <= set(sources.Reader.model_fields)


@pytest.mark.parametrize("name", config.LISTED)
def test_a_key_that_is_none_is_refused_in_every_list_of_tables(name: str) -> None:
    table, key = name.split(".")
    with pytest.raises(config.ConfigError, match=rf"{name}\.0\.nonsense: unknown key"):
        config.load(overrides={table: {key: [{"name": "a", "nonsense": 1}]}})


def test_schedules_are_tables_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text('[[scheduler.schedules]]\nname = "nightly"\ncron = "0 2 * * *"\njob = "j"\nduration_ms = 500\n')
    (nightly,) = config.load(path).scheduler.schedules
    assert (nightly.name, nightly.cron, nightly.late_s) == ("nightly", "0 2 * * *", 60.0)
    path.write_text('[[scheduler.schedules]]\nname = "nightly"\ncrom = "0 2 * * *"\n')
    with pytest.raises(config.ConfigError, match=r"did you mean scheduler\.schedules\.0\.cron"):
        config.load(path)
    path.write_text('[scheduler.schedules]\nname = "nightly"\n')
    with pytest.raises(config.ConfigError, match=r"\[\[scheduler\.schedules\]\] in double brackets"):
        config.load(path)


TOKEN = '[[web.tokens]]\nname = "ann"\nrole = "operator"\ntoken = "0123456789abcdef"\n'


def test_the_page_leaves_this_machine_only_with_a_way_to_know_who_looks() -> None:
    everywhere = '[web]\nlisten = "0.0.0.0"\n'
    with pytest.raises(config.ConfigError, match=r"not loopback.*web\.tokens"):
        config.load(write(everywhere))
    assert config.load(write(everywhere + TOKEN)).web.guarded
    assert config.load(write(everywhere + 'proxies = ["10.1.2.3"]\n')).web.guarded


def test_tokens_of_the_page_come_from_a_file_or_a_variable_and_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = config.load(write(TOKEN))
    monkeypatch.setenv("WARPMETER_WEB__TOKENS", '[{"name": "bob", "token": "fedcba9876543210"}]')
    told = config.load(write(TOKEN))
    assert [(token.name, token.role) for token in (*kept.web.tokens, *told.web.tokens)] == [
        ("ann", "operator"),
        ("bob", "viewer"),
    ]
    for each in (kept, told):
        said = f"{config.shown(each)} {each}"
        assert "0123456789abcdef" not in said
        assert "fedcba9876543210" not in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[web.tokens]]\nname = "ann"\n', "token, or token_file"),
        ('[[web.tokens]]\nname = "ann"\ntoken = "short"\n', "too short"),
        ('[[web.tokens]]\nname = "ann"\ntoken = "0123456789äöüßéà"\n', "no header carries"),
        ('[[web.tokens]]\nname = "a b"\ntoken = "0123456789abcdef"\n', "name"),
        (TOKEN + TOKEN, "name of its own"),
        ('[[web.tokens]]\nname = "ann"\nrole = "root"\ntoken = "0123456789abcdef"\n', "viewer"),
        ('[web]\nproxies = ["proxy.local"]\n', "addresses or networks"),
        ('[web]\ntls_key = "/k"\n', "go together"),
        ('[web]\nuser_header = "X User"\n', "no name of a header"),
        ("[web]\nport = 70000\n", "no port"),
        ("[web]\nsql_rows = 0\n", "more than 0"),
        ('[web]\nsession_secret = "abc"\n', "too short"),
    ],
)
def test_impossible_settings_of_the_page_are_refused(text: str, why: str) -> None:
    with pytest.raises(config.ConfigError, match=why):
        config.load(write(text))


def test_a_variable_may_name_the_file_that_holds_the_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write('[store]\ndsn = "http://file:8123"\ndatabase = "other"\n[kafka.options]\n"sasl.username" = "ann"\n')
    for name, text in {"dsn": "https://ann:secret@store:8443\n", "word": "sesame\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("WARPMETER_STORE__DSN_FILE", str(tmp_path / "dsn"))
    monkeypatch.setenv("WARPMETER_KAFKA__OPTIONS__SASL.PASSWORD_FILE", str(tmp_path / "word"))
    loaded = config.load(path)
    assert (loaded.store.dsn, loaded.store.database) == ("https://ann:secret@store:8443", "other")
    assert loaded.kafka.options == {"sasl.username": "ann", "sasl.password": "sesame"}
    assert not [word for word in ("ann:secret", "sesame") if word in str(config.shown(loaded))]


def test_a_mark_of_the_encoding_is_no_part_of_what_a_file_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("http://file:8123\n", encoding="utf-8-sig")
    (tmp_path / "w.toml").write_text("[agent]\nhost = 'gpu01'\n", encoding="utf-8-sig")
    monkeypatch.setenv("WARPMETER_STORE__DSN_FILE", str(tmp_path / "dsn"))
    loaded = config.load(tmp_path / "w.toml")
    assert (loaded.store.dsn, loaded.agent.host) == ("http://file:8123", "gpu01")


def test_a_file_of_a_value_that_cannot_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPMETER_STORE__DSN_FILE", str(tmp_path / "dsn"))
    with pytest.raises(config.ConfigError, match=r"WARPMETER_STORE__DSN_FILE: cannot read .*dsn: No such file"):
        config.load()
    (tmp_path / "dsn").write_text("\n")
    with pytest.raises(config.ConfigError, match=r"dsn is empty"):
        config.load()
    monkeypatch.setenv("WARPMETER_STORE__DSN", "http://variable:8123")
    with pytest.raises(config.ConfigError, match=r"both .* are set"):
        config.load()
    monkeypatch.setenv("WARPMETER_STORE__DNS_FILE", str(tmp_path / "dsn"))
    with pytest.raises(config.ConfigError, match=r"unknown variable WARPMETER_STORE__DNS_FILE"):
        config.load()
