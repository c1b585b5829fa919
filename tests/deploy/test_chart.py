"""The Helm chart, rendered by helm: valid for Kubernetes, and every process it makes would start as it should."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.conftest import CHART, DATABASE_URL, Document, Render, config_of, environment, of_kind

from virtflow.control.strategy_file import FILE_NAME, read_strategy
from virtflow.engine import strategies
from virtflow.main.parts import make_self_hosts
from virtflow.model.errors import InvalidSetting

pytestmark = pytest.mark.service("helm")

KUBERNETES = "1.31"
ROLES = ("api", "scheduler", "relay")
ON_NODE = {"spec.nodeName": "bm-007.rack-2.example", "status.hostIP": "10.0.0.7"}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"mode": "colocated"},
    {"mode": "colocated", "selfExclusion": {"nodes": False, "label": "role=infra"}},
    {"election": "kubernetes", "replicas": {"api": 1, "scheduler": 1, "relay": 1}},
    {"existingSecret": "mine", "secret": {}, "serviceAccount": {"name": "other", "annotations": {"a": "b"}}},
    {
        "secret": {"databaseUrl": DATABASE_URL, "brokerUrl": "amqp://u:p@mq/", "token": "t0ken", "inventoryToken": "x"},
        "inventory": {"url": "http://nodes/nodes"},
        "settings": {"tick_s": 2.5, "events_keep": 5000, "webhook_allow": "10.0.0.0/8"},
        "image": {"repository": "registry.example/virtflow", "tag": "1", "pullSecrets": [{"name": "pull"}]},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"role": "infra"},
        "podAnnotations": {"team": "seed"},
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
        "service": {"type": "LoadBalancer", "port": 443, "annotations": {"c": "d"}},
    },
    {"sealSecrets": True, "secret": {"databaseUrl": DATABASE_URL, "secretsKeys": "a2V5\n"}},
    {"networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": False}},
]


def secret_of(documents: list[Document]) -> dict[str, str]:
    known = of_kind(documents, "Secret")
    made = known["demo"]["stringData"] if known else {"token": "of-mine", "databaseUrl": DATABASE_URL}
    return {name: str(value) for name, value in made.items()}


@pytest.mark.parametrize("values", VARIANTS)
def test_everything_rendered_is_valid_and_every_process_would_start(render: Render, values: dict[str, Any]) -> None:
    documents = render(**values)
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        assert document["metadata"]["namespace"] == "prod"
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "demo"
    deployments = of_kind(documents, "Deployment")
    assert set(deployments) == {f"demo-{role}" for role in ROLES}
    for role in ROLES:
        config = config_of(environment(deployments[f"demo-{role}"], secret_of(documents), ON_NODE))
        assert (config.role, config.host, config.port) == ({role}, "0.0.0.0", 8080)
        assert config.database_url.reveal() == DATABASE_URL
        assert config.token.reveal()
    refused = helm_says(render, **values)
    assert refused == ""


def helm_says(render: Render, **values: Any) -> str:
    try:
        render(**values)
    except ValueError as error:
        return str(error)
    return ""


def test_the_chart_is_linted_strictly(helm: Callable[..., Any]) -> None:
    ran = helm("lint", "--strict", str(CHART), "--set", f"secret.databaseUrl={DATABASE_URL}")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"secret": {}}, "secret.databaseUrl is missing"),
        ({"sealSecrets": True}, "secret.secretsKeys is missing"),
        ({"mode": "colocated", "selfExclusion": {"nodes": False}}, "mode=colocated needs selfExclusion"),
        ({"mode": "both"}, "mode"),
        ({"replicas": {"api": 0}}, "replicas"),
        ({"replicsa": {"api": 1}}, "replicsa"),
        ({"strategy": "Best Fit"}, "strategy"),
        ({"secret": {"databaseUrl": "mysql://x"}}, "databaseUrl"),
        ({"settings": {"port": "9"}}, "settings.port has a value of its own"),
        ({"selfExclusion": {"label": "nonsense"}}, "label"),
        ({"podMonitor": {"enabled": True}}, "install the Prometheus operator first"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_installed(
    render: Render, values: dict[str, Any], says: str
) -> None:
    assert says in helm_says(render, **values)


def test_the_hosts_that_carry_pods_are_never_candidates(render: Render) -> None:
    for mode in ("seed", "colocated"):
        documents = render(mode=mode, selfExclusion={"nodes": True, "label": "role=infra", "hosts": ["bm-001"]})
        for role in ROLES:
            deployment = of_kind(documents, "Deployment")[f"demo-{role}"]
            hosts = make_self_hosts(config_of(environment(deployment, secret_of(documents), ON_NODE)))
            assert hosts.carries("bm-007", "", {})  # the node of the pod, by its first name
            assert hosts.carries("other-name", "10.0.0.7", {})  # and by its address
            assert hosts.carries("bm-001", "", {})
            assert hosts.carries("bm-002", "", {"role": "infra"})
            assert not hosts.carries("bm-002", "10.0.0.8", {"role": "worker"})


def test_without_nodes_the_name_of_the_pod_is_not_taken_for_a_machine(render: Render) -> None:
    documents = render(selfExclusion={"nodes": False})
    deployment = of_kind(documents, "Deployment")["demo-api"]
    assert config_of(environment(deployment, secret_of(documents), {})).node_name == "none"


def test_the_mounted_config_map_is_the_strategy_file(render: Render, tmp_path: Path) -> None:
    documents = render(strategy="best_fit")
    [config_map] = of_kind(documents, "ConfigMap").values()
    for name, content in config_map["data"].items():
        (tmp_path / name).write_text(content)
    assert set(config_map["data"]) == {FILE_NAME}
    assert read_strategy(tmp_path, strategies.names()) == "best_fit"
    for deployment in of_kind(documents, "Deployment").values():
        pod = deployment["spec"]["template"]["spec"]
        [mount] = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "strategy"]
        environ = environment(deployment, secret_of(documents), ON_NODE)
        assert str(config_of(environ).strategy_file) == mount["mountPath"]
        assert "subPath" not in mount  # it would never be updated
        assert config_map["metadata"]["name"] in [one.get("configMap", {}).get("name") for one in pod["volumes"]]


def test_a_strategy_nobody_knows_is_refused_by_the_program(render: Render, tmp_path: Path) -> None:
    [config_map] = of_kind(render(strategy="besser"), "ConfigMap").values()
    (tmp_path / FILE_NAME).write_text(config_map["data"][FILE_NAME])
    with pytest.raises(InvalidSetting):
        read_strategy(tmp_path, strategies.names())


def test_who_votes_by_kubernetes_may_write_its_leases_and_nothing_else(render: Render) -> None:
    documents = render(election="kubernetes")
    [role] = of_kind(documents, "Role").values()
    allowed = {(verb, *rule.get("resourceNames", [])) for rule in role["rules"] for verb in rule["verbs"]}
    assert allowed == {
        ("create",),
        ("get", "demo-scheduler", "demo-relay"),
        ("update", "demo-scheduler", "demo-relay"),
    }
    assert all(rule["resources"] == ["leases"] for rule in role["rules"])
    [binding] = of_kind(documents, "RoleBinding").values()
    deployments = of_kind(documents, "Deployment")
    config = config_of(environment(deployments["demo-scheduler"], secret_of(documents), ON_NODE))
    assert (config.election, config.kubernetes_lease) == ("kubernetes", "prod/demo-scheduler")
    for name, deployment in deployments.items():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == binding["subjects"][0]["name"]
        assert pod["automountServiceAccountToken"] == (name != "demo-api")
    plain = render()
    assert of_kind(plain, "Role") == {}
    assert not any(
        one["spec"]["template"]["spec"]["automountServiceAccountToken"] for one in of_kind(plain, "Deployment").values()
    )


def test_pods_may_nothing_that_they_do_not_need(render: Render) -> None:
    for deployment in of_kind(render(), "Deployment").values():
        pod = deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert "hostNetwork" not in pod
        assert "hunter2" not in json.dumps(deployment)  # secrets are referred to
        probes = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
        assert probes == {"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/readyz"}


def test_a_rollout_never_waits_for_a_machine_that_is_not_there(render: Render) -> None:
    """Where each scheduler has a machine of its own, an extra one would find none."""
    for mode in ("seed", "colocated"):
        for name, deployment in of_kind(render(mode=mode), "Deployment").items():
            spec = deployment["spec"]
            rule = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
            is_hard = "requiredDuringSchedulingIgnoredDuringExecution" in rule
            assert is_hard == (mode == "seed" and name != "demo-api")
            assert not (is_hard and spec["strategy"]["rollingUpdate"]["maxSurge"])
            [terms] = rule.values()
            term = terms[0] if is_hard else terms[0]["podAffinityTerm"]
            assert term["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_one_of_several_may_be_disrupted_and_an_only_one_may_not_block(render: Render) -> None:
    budgets = of_kind(render(replicas={"api": 2, "scheduler": 3, "relay": 1}), "PodDisruptionBudget")
    assert set(budgets) == {"demo-api", "demo-scheduler"}
    assert {budget["spec"]["maxUnavailable"] for budget in budgets.values()} == {1}


def test_the_service_and_the_policy_find_the_pods(render: Render) -> None:
    documents = render()
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"] for name, one in of_kind(documents, "Deployment").items()
    }
    [service] = of_kind(documents, "Service").values()
    chosen = [name for name, known in labels.items() if service["spec"]["selector"].items() <= known.items()]
    assert chosen == ["demo-api"]
    [policy] = of_kind(documents, "NetworkPolicy").values()
    selector = policy["spec"]["podSelector"]["matchLabels"]
    assert all(selector.items() <= known.items() for known in labels.values())


def test_prometheus_is_told_where_the_operator_is_there(render: Render) -> None:
    documents = render("--api-versions", "monitoring.coreos.com/v1", podMonitor={"enabled": True, "labels": {"a": "b"}})
    [monitor] = of_kind(documents, "PodMonitor").values()
    assert monitor["spec"]["podMetricsEndpoints"][0]["path"] == "/metrics"
    assert monitor["spec"]["podMetricsEndpoints"][0]["authorization"]["credentials"] == {"name": "demo", "key": "token"}


def test_a_token_is_drawn_where_none_is_given(render: Render) -> None:
    drawn = [secret_of(render())["token"] for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert all(len(token) == 43 for token in drawn)
    assert secret_of(render(secret={"databaseUrl": DATABASE_URL, "token": "mine"}))["token"] == "mine"


def test_every_value_is_documented_and_every_documented_one_exists() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    page = (CHART.parents[2] / "docs/deploy.md").read_text()
    known = {
        f"{name}.{inner}" if isinstance(value, dict) and value else name
        for name, value in values.items()
        for inner in (value if isinstance(value, dict) and value else [""])
    }
    table = page.partition("### Values")[2].partition("\n## ")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = {name for cell in first for name in re.findall("`([^`]+)`", cell)}
    assert told == known


def test_the_chart_is_of_this_version() -> None:
    from virtflow import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
