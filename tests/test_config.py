"""Settings: one table, four sources, and messages that name the way out."""

import dataclasses
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from virtflow.config import (
    BY_NAME,
    CLIENT_VARIABLES,
    CONFIG_VARIABLE,
    SETTINGS,
    STRATEGY_VARIABLE,
    Config,
    InvalidSettings,
    is_loopback,
    load_config,
    make_data_folder,
    show_config,
)
from virtflow.inventory import UsageMode
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret

STRATEGIES = ["least_loaded", "hybrid", "round_robin"]
PAGE = Path(__file__).parent.parent / "docs" / "settings.md"


def load(environ: Mapping[str, str] | None = None, **flags: str) -> Config:
    home = {"HOME": "/nowhere"}
    return load_config(environ={**home, **(environ or {})}, known_strategies=STRATEGIES, flags=flags)


def problems(environ: Mapping[str, str] | None = None, **flags: str) -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        load(environ, **flags)
    return [f"{problem.detail}; {problem.remedy}" for problem in caught.value.problems]


def file_with(folder: Path, text: str) -> str:
    path = folder / "config.toml"
    path.write_text(text)
    return str(path)


# Defaults and sources.


def test_without_anything_said_the_defaults_hold() -> None:
    config = load()
    assert (config.host, config.port, config.strategy) == ("127.0.0.1", 8080, "least_loaded")
    assert (config.inventory_poll_s, config.inventory_timeout_s) == (10.0, 5.0)
    assert config.inventory_usage is UsageMode.FOREIGN
    assert (config.retries_max, config.retry_wait_s, config.tick_s) == (3, 3.0, 5.0)
    assert config.sqlite_path == Path("/nowhere/.local/share/virtflow/virtflow.db")
    assert set(config.origins.values()) == {"default"}


def test_the_record_and_the_table_name_the_same_settings() -> None:
    assert [setting.name for setting in SETTINGS] == [each.name for each in dataclasses.fields(Config)][:-1]


def test_each_source_beats_the_weaker_ones(tmp_path: Path) -> None:
    path = file_with(tmp_path, "port = 1001\ntick_s = 1\nretries_max = 1\n")
    config = load({"VIRTFLOW_PORT": "1002", "VIRTFLOW_TICK_S": "2"}, config=path, port="1003")
    assert (config.port, config.tick_s, config.retries_max) == (1003, 2.0, 1)
    assert config.origins["port"] == "flag --port"
    assert config.origins["tick_s"] == "environment VIRTFLOW_TICK_S"
    assert config.origins["retries_max"] == f"file {path}"


def test_the_file_is_found_by_variable_and_in_its_usual_place(tmp_path: Path) -> None:
    named = file_with(tmp_path, "port = 1")
    assert load({CONFIG_VARIABLE: named}).port == 1
    usual = tmp_path / "virtflow"
    usual.mkdir()
    file_with(usual, "port = 2")
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}).port == 2
    assert load({"XDG_CONFIG_HOME": str(tmp_path), CONFIG_VARIABLE: named}).port == 1


def test_values_of_the_file_have_their_own_types(tmp_path: Path) -> None:
    path = file_with(
        tmp_path, 'inventory_poll_s = 2\nlog_format = "json"\n[strategy_weights]\ncpu = 0.7\nmemory = 0.3\n'
    )
    config = load(config=path)
    assert config.inventory_poll_s == 2.0
    assert config.strategy_weights == {"cpu": 0.7, "memory": 0.3}


def test_an_empty_variable_is_one_that_was_not_given() -> None:
    assert load({"VIRTFLOW_PORT": "", "VIRTFLOW_TOKEN": ""}).port == 8080


def test_weights_are_read_from_text() -> None:
    assert load({"VIRTFLOW_STRATEGY_WEIGHTS": "cpu=0.7, memory=0.3"}).strategy_weights == {"cpu": 0.7, "memory": 0.3}


def test_the_old_name_of_the_strategy_works_unless_it_says_something_else() -> None:
    assert load({STRATEGY_VARIABLE: "hybrid"}).strategy == "hybrid"
    assert load({STRATEGY_VARIABLE: "hybrid", "VIRTFLOW_STRATEGY": "hybrid"}).strategy == "hybrid"
    [problem] = problems({STRATEGY_VARIABLE: "hybrid", "VIRTFLOW_STRATEGY": "round_robin"})
    assert "SCHEDULING_STRATEGY='hybrid'" in problem
    assert "VIRTFLOW_STRATEGY='round_robin'" in problem


# What is wrong.


def test_everything_wrong_is_reported_at_once() -> None:
    found = problems({"VIRTFLOW_PORT": "70000", "VIRTFLOW_TICK_S": "soon"}, log_level="loud", strategy="best")
    assert len(found) == 4
    assert "port='70000' (environment VIRTFLOW_PORT) is not valid; expected: a whole number from 0 to 65535" in found
    assert any("log_level='loud' (flag --log-level)" in each for each in found)


def test_the_message_of_one_wrong_setting_says_value_source_and_what_is_expected() -> None:
    with pytest.raises(InvalidSetting) as caught:
        load({"VIRTFLOW_PORT": "http"})
    assert str(caught.value) == caught.value.detail
    assert "port='http' (environment VIRTFLOW_PORT)" in str(caught.value)
    assert caught.value.error_code == "invalid_setting"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "-1"),
        ("port", "80.5"),
        ("tick_s", "nan"),
        ("tick_s", "inf"),
        ("tick_s", "0"),
        ("events_keep", "1"),
        ("host", "no spaces here"),
        ("host", ""),
        ("inventory_url", "ftp://nodes/"),
        ("inventory_url", "nodes:5000"),
        ("inventory_url", "http://nodes:99999/"),
        ("inventory_url", "http://"),
        ("database_url", "mysql://db/virtflow"),
        ("database_url", "sqlite:virtflow.db"),
        ("database_url", "sqlite:///a.db?mode=ro"),
        ("database_url", "postgresql://db"),
        ("database_url", ""),
        ("inventory_usage", "some"),
        ("inventory_plugin", "netbox"),
        ("strategy_weights", "cpu"),
        ("strategy_weights", "cpu=-1"),
        ("strategy_weights", "cpu=0"),
        ("strategy_weights", "cpu=1,cpu=2"),
        ("simulate", "many"),
        ("strategy", ""),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_expected(name: str, value: str) -> None:
    [problem] = problems(**{name: value})
    assert problem.startswith(f"{name}=")
    assert f"(flag --{name.replace('_', '-')})" in problem
    assert BY_NAME[name].kind.expected in problem or name == "strategy"


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    [problem] = problems({STRATEGY_VARIABLE: "roundrobin"})
    assert "one of least_loaded, hybrid, round_robin (did you mean round_robin?)" in problem
    assert STRATEGY_VARIABLE in problem


def test_a_misspelt_variable_is_refused_with_the_right_one_and_without_its_value() -> None:
    [problem] = problems({"VIRTFLOW_TOKN": "s3cret"})
    assert "did you mean VIRTFLOW_TOKEN?" in problem
    assert "s3cret" not in problem


def test_a_misspelt_key_in_the_file_is_refused_with_the_right_one(tmp_path: Path) -> None:
    [problem] = problems(config=file_with(tmp_path, "prot = 80"))
    assert "did you mean port?" in problem
    assert "config.toml" in problem


@pytest.mark.parametrize("text", ["port = \n", "port\n", "\x00", "port = 1\nport = 2\n"])
def test_a_broken_file_is_refused_with_the_place(tmp_path: Path, text: str) -> None:
    [problem] = problems(config=file_with(tmp_path, text))
    assert "a TOML file" in problem
    assert "line" in problem


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    [problem] = problems({CONFIG_VARIABLE: str(tmp_path / "none.toml")})
    assert "No such file" in problem
    assert CONFIG_VARIABLE in problem


def test_variables_of_the_client_are_not_ours_to_judge() -> None:
    load(dict.fromkeys(CLIENT_VARIABLES, "anything"))


def test_variables_that_kubernetes_sets_for_a_service_named_virtflow_do_no_harm() -> None:
    config = load(
        {
            "VIRTFLOW_SERVICE_HOST": "10.96.0.7",
            "VIRTFLOW_SERVICE_PORT": "8080",
            "VIRTFLOW_SERVICE_PORT_HTTP": "8080",
            "VIRTFLOW_PORT": "tcp://10.96.0.7:8080",
            "VIRTFLOW_PORT_8080_TCP": "tcp://10.96.0.7:8080",
            "VIRTFLOW_PORT_8080_TCP_ADDR": "10.96.0.7",
            "VIRTFLOW_PORT_8080_TCP_PROTO": "tcp",
            "VIRTFLOW_POSTGRES_SERVICE_HOST": "10.96.0.8",
            "VIRTFLOW_POSTGRES_PORT": "tcp://10.96.0.8:5432",
        }
    )
    assert config.port == 8080
    assert config.origins["port"] == "default"


# Settings that forbid each other.


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "virtflow.example", "::ffff:10.0.0.5"])
def test_only_loopback_starts_without_a_token(host: str) -> None:
    [problem] = problems(host=host)
    assert "VIRTFLOW_TOKEN" in problem
    assert load({"VIRTFLOW_TOKEN": "s3cret"}, host=host).token.reveal() == "s3cret"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)
    assert load(host=host).host == host


def test_simulated_and_real_hosts_never_mix() -> None:
    [problem] = problems(simulate="60", inventory_url="http://nodes/")
    assert "simulated and real hosts never mix" in problem
    assert load(simulate="60").simulate == 60


def test_a_setting_that_is_wrong_already_is_not_judged_again() -> None:
    assert len(problems(host="0.0.0.0", simulate="x", inventory_url="http://nodes/")) == 2


# Secrets.


def test_secrets_stay_secret_wherever_settings_are_shown() -> None:
    config = load(
        {
            "VIRTFLOW_TOKEN": "s3cret-a",
            "VIRTFLOW_INVENTORY_TOKEN": "s3cret-b",
            "VIRTFLOW_INVENTORY_URL": "http://me:s3cret-c@nodes/nodes",
            "VIRTFLOW_DATABASE_URL": "postgresql://me:s3cret-d@db/virtflow",
        }
    )
    assert "s3cret" not in f"{config!r} {show_config(config)}"
    assert config.inventory_url.reveal() == "http://me:s3cret-c@nodes/nodes"
    assert ("database_url", "postgresql://***@db/virtflow", "environment VIRTFLOW_DATABASE_URL") in show_config(config)


def test_a_wrong_secret_is_not_repeated_in_the_message() -> None:
    found = problems({"VIRTFLOW_TOKEN": "s3cret with spaces", "VIRTFLOW_INVENTORY_URL": "ftp://me:s3cret@nodes/"})
    assert len(found) == 2
    assert "s3cret" not in " ".join(found)


def test_a_secret_on_the_command_line_is_refused_with_the_better_way() -> None:
    [problem] = problems(token="s3cret")
    assert "VIRTFLOW_TOKEN in the environment" in problem
    assert "s3cret" not in problem


# The database file.


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("sqlite:////var/lib/virtflow/v.db", "/var/lib/virtflow/v.db"),
        ("/var/lib/virtflow/v.db", "/var/lib/virtflow/v.db"),
        ("sqlite:////var/a%20b/v.db", "/var/a b/v.db"),
        ("/var/a b/50%.db", "/var/a b/50%.db"),
    ],
)
def test_the_database_file_is_named_by_url_or_path(given: str, path: str) -> None:
    assert load(database_url=given).sqlite_path == Path(path)


@pytest.mark.parametrize("given", ["sqlite:///some/v.db", "some/v.db"])
def test_a_relative_database_file_is_made_absolute(given: str) -> None:
    assert load(database_url=given).sqlite_path == Path.cwd() / "some/v.db"


@pytest.mark.parametrize("given", ["sqlite://", "postgresql:///virtflow?host=/run/postgresql"])
def test_a_database_without_a_file_has_no_path(given: str) -> None:
    assert load(database_url=given).sqlite_path is None
    assert load(database_url=given).database_url.reveal() == given


def test_the_database_url_means_the_same_to_the_store(tmp_path: Path) -> None:
    from virtflow.store.open import open_store
    from virtflow.store.sqlite import SqliteStore

    store = open_store(load(database_url=str(tmp_path / "a b.db")).database_url.reveal())
    assert isinstance(store, SqliteStore)
    assert str(tmp_path / "a b.db") in repr(vars(store))


def test_the_data_folder_is_made_for_nobody_else(tmp_path: Path) -> None:
    config = load({"XDG_DATA_HOME": str(tmp_path)})
    make_data_folder(config)
    make_data_folder(config)
    assert stat.S_IMODE((tmp_path / "virtflow").stat().st_mode) == 0o700


# The page.


def row_of(setting: Any) -> str:
    default = f"`{setting.default}`" if setting.default else "none"
    flag = f"`{setting.flag}`" if setting.flag else "none: it is a secret"
    expected = setting.kind.expected.replace("|", "\\|")
    return f"| `{setting.name}` | `{setting.variable}` | {flag} | {default} | {expected} | {setting.meaning} |"


def test_every_setting_is_documented_as_the_table_has_it() -> None:
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert written == [row_of(setting) for setting in SETTINGS]


def test_the_page_names_every_variable_that_is_no_setting() -> None:
    text = PAGE.read_text()
    assert [name for name in (*CLIENT_VARIABLES, CONFIG_VARIABLE, STRATEGY_VARIABLE) if name not in text] == []


def test_no_secret_has_a_default() -> None:
    assert [setting.name for setting in SETTINGS if setting.is_secret and setting.default] == []
    assert all(isinstance(getattr(load(), each.name), Secret) for each in SETTINGS if each.is_secret)


# The API of a Kubernetes cluster.


def test_every_pod_is_told_where_its_api_is() -> None:
    inside = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert load(inside).kubernetes_url == "https://10.96.0.1:6443"
    assert load({"KUBERNETES_SERVICE_HOST": "fd00::1"}).kubernetes_url == "https://[fd00::1]:443"
    assert load(inside, kubernetes_url="https://elsewhere").kubernetes_url == "https://elsewhere"
    assert load().kubernetes_url == ""
    assert load().kubernetes_account == Path("/var/run/secrets/kubernetes.io/serviceaccount")


def test_an_election_by_kubernetes_needs_a_kubernetes() -> None:
    [problem] = problems(election="kubernetes")
    assert "database outside of a cluster, or kubernetes with kubernetes_url" in problem
    [problem] = problems(election="kubernetes", kubernetes_url="http://10.0.0.1:8001")
    assert "for the token of the service account goes there" in problem
    assert load(election="kubernetes", kubernetes_url="http://127.0.0.1:8001").election == "kubernetes"
    [problem] = problems(kubernetes_account="")
    assert "the path of a folder" in problem
