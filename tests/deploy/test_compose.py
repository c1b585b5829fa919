"""The compose file and the image: no engine is here to run them, so what can be read off them is checked."""

import re
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import DEPLOY, config_of, leaves

from virtflow.main.parts import make_self_hosts

GIVEN = {"VIRTFLOW_TOKEN": "t", "POSTGRES_PASSWORD": "p", "RABBITMQ_PASSWORD": "r", "VIRTFLOW_NODE_NAME": "bm-007"}
_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")
OURS = {"api": "api", "scheduler-1": "scheduler", "scheduler-2": "scheduler", "relay": "relay"}


class Missing(Exception):
    pass


def interpolated(text: str, environ: dict[str, str]) -> str:
    """As compose does it."""

    def value(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        if environ.get(name):
            return environ[name]
        if how == "?":
            raise Missing(f"{name}: {rest}")
        return rest or ""

    return _VARIABLE.sub(value, text)


def composed(environ: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(interpolated((DEPLOY / "docker-compose.yml").read_text(), environ))
    return found


@pytest.mark.parametrize("service", OURS)
def test_every_process_would_start(service: str) -> None:
    environ = composed(GIVEN)["services"][service]["environment"]
    config = config_of({name: str(value) for name, value in environ.items() if value})
    assert config.role == {OURS[service]}
    assert config.database_url.reveal() == "postgresql://virtflow:p@postgres/virtflow"
    assert config.broker_url.reveal() == "amqp://virtflow:r@rabbitmq/"
    assert make_self_hosts(config).carries("bm-007", "", {})


@pytest.mark.parametrize("name", ["VIRTFLOW_TOKEN", "POSTGRES_PASSWORD", "RABBITMQ_PASSWORD"])
def test_no_secret_has_a_default(name: str) -> None:
    with pytest.raises(Missing, match=name):
        composed({**GIVEN, name: ""})


def test_two_schedulers_stand_beside_each_other_and_all_wait_for_what_they_need() -> None:
    services = composed(GIVEN)["services"]
    for name in OURS:
        assert services[name]["depends_on"] == {
            "postgres": {"condition": "service_healthy"},
            "rabbitmq": {"condition": "service_healthy"},
        }
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > 10
    for name in ("postgres", "rabbitmq"):
        check = services[name]["healthcheck"]
        assert (check["interval"], check["timeout"], check["retries"]) == ("10s", "5s", 5)


def test_nothing_is_open_to_the_network_but_the_api_on_loopback() -> None:
    ports = {name: one.get("ports") for name, one in composed(GIVEN)["services"].items() if one.get("ports")}
    assert ports == {"api": ["127.0.0.1:8080:8080"]}
    assert not [key for key, value in leaves(composed(GIVEN)) if key == "privileged" and value]


def test_what_is_kept_is_on_volumes_that_exist() -> None:
    document = composed(GIVEN)
    used = {one.partition(":")[0] for service in document["services"].values() for one in service.get("volumes", [])}
    assert used == set(document["volumes"])


# the image


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    joined = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]  # type: ignore[misc]


def test_the_image_has_two_stages_and_runs_as_nobody() -> None:
    said = instructions()
    assert [what for what, _ in said].count("FROM") == 2
    final = said[max(place for place, (what, _) in enumerate(said) if what == "FROM") :]
    users = [rest for what, rest in final if what == "USER"]
    assert users == ["65532:65532"]  # a number, so that a cluster can see that it is not root
    assert ("ENTRYPOINT", '["virtflow"]') in final
    assert not [rest for what, rest in final if what == "RUN" and "pip" in rest]


def test_everything_is_installed_by_hash() -> None:
    for what, rest in instructions():
        for command in rest.split("&&") if what == "RUN" else []:
            if "pip install" in command and "/wheels/" not in command:
                assert "--require-hashes --only-binary :all:" in command


def test_what_is_copied_is_there_and_let_through() -> None:
    root, ignored = DEPLOY.parent, (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for what, rest in instructions():
        if what != "COPY" or rest.startswith("--from"):
            continue
        for source in rest.split()[:-1]:
            assert (root / source).exists(), source
            assert f"!{source}" in ignored, source


def test_the_settings_of_the_image_are_settings() -> None:
    variables = dict(
        pair.split("=", 1) for what, rest in instructions() if what == "ENV" for pair in rest.split() if "=" in pair
    )
    config = config_of({name: value for name, value in variables.items() if name != "PATH"})
    assert str(config.sqlite_path) == "/var/lib/virtflow/virtflow.db"
