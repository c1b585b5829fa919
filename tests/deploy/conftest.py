"""What is deployed, as the program would see it."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from virtflow.config import Config, load_config
from virtflow.engine import strategies

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm/virtflow"
DATABASE_URL = "postgresql://virtflow:hunter2@db.example/virtflow"

Document = dict[str, Any]
Render = Callable[..., list[Document]]


def config_of(environ: Mapping[str, str]) -> Config:
    """What a process with this environment is told; InvalidSettings when it would not start."""
    return load_config(environ={"HOME": "/nowhere", **environ}, known_strategies=strategies.names())


@pytest.fixture
def helm(programs: Mapping[str, Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs["helm"]), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def render(helm: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Render:
    """`render(mode="colocated")`: the documents of the chart with these values."""

    def rendered(*words: str, **values: Any) -> list[Document]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump({"secret": {"databaseUrl": DATABASE_URL}, **values}))
        ran = helm("template", "demo", str(CHART), "--namespace", "prod", "--values", str(file), *words)
        if ran.returncode:
            raise ValueError(ran.stderr)
        return [document for document in yaml.safe_load_all(ran.stdout) if document]

    return rendered


def of_kind(documents: list[Document], kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def environment(deployment: Document, secret: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
    """As the kubelet makes it: secrets and fields looked up, `$(NAME)` of earlier variables filled in."""
    found = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"]:
        value = variable.get("value")
        if value is None:
            source = variable["valueFrom"]
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif source["secretKeyRef"]["key"] in secret or not source["secretKeyRef"].get("optional"):
                value = secret[source["secretKeyRef"]["key"]]
            else:
                continue
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[variable["name"]] = value
    return found


def leaves(thing: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every mapping in there, with its value."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield key, value
            yield from leaves(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from leaves(value)
