"""The routes, the OpenAPI document and docs/api.md say the same; /docs needs nobody else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.api.conftest import Answer, Api, app_of

from virtflow.api.app import OPERATIONS
from virtflow.api.docs import FILES, STATIC
from virtflow.api.openapi import REFUSALS, TAGS
from virtflow.api.schedule import ScheduleIn
from virtflow.main import Service
from virtflow.model.secret import Secret

PAGE = (Path(__file__).parents[2] / "docs/api.md").read_text()
HIDDEN = {("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/docs/{file}")}


@pytest.fixture
async def document(api: Api) -> Any:
    return (await api.get("/openapi.json")).json


def routes_of(api: Api) -> set[tuple[str, str]]:
    router = api.app._router
    templates = {template: endpoints for template, (_, endpoints) in router._templates.items()}
    return {(method, path) for path, endpoints in (router._plain | templates).items() for method in endpoints}


async def test_routes_and_documents_name_the_same_calls(api: Api, document: Any) -> None:
    routes = routes_of(api)
    assert routes - HIDDEN == {(one.method, one.path) for one in OPERATIONS}
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == routes - HIDDEN
    told = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^` ?]*)`", PAGE))
    assert told == routes - {("GET", "/docs/{file}")}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_the_page_names_every_field_and_parameter(operation: Any) -> None:
    told = set(re.findall(r"[a-z_]+", PAGE))
    bodies = operation.body if isinstance(operation.body, tuple) else (operation.body,)
    answers = [one for of in operation.answers.values() for one in (of if isinstance(of, tuple) else (of,))]
    for of in (*bodies, *answers, operation.query):
        if isinstance(of, type):
            assert set(of.__struct_fields__) - told == set(), of


def test_the_table_of_schedule_has_every_field() -> None:
    part = PAGE.split("## The API they already know")[1].split("Answer:")[0]
    assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(ScheduleIn.__struct_fields__)


async def test_every_operation_is_described_whole(document: Any) -> None:
    ids = set()
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            where = f"{method} {path}"
            ids.add(one["operationId"])
            assert one["summary"], where
            assert set(one["tags"]) <= set(TAGS), where
            assert {"400", "401", "422", "500", "503"} <= set(one["responses"]), where
            if "requestBody" in one:
                assert {"408", "413", "415", "429"} <= set(one["responses"]), where
                assert all(media["examples"] for media in one["requestBody"]["content"].values()), where
            for status, answer in one["responses"].items():
                assert answer["description"], where
                if int(status) >= 400 and path not in ("/healthz", "/readyz"):
                    schema = answer["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Problem"}, where
                    assert int(status) in REFUSALS, where
    assert len(ids) == len(OPERATIONS)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert document["paths"]["/v1/vms"]["post"]["responses"]["202"]["links"]["task"]["operationId"] == "get_task"


async def test_every_reference_leads_somewhere_and_nothing_is_unused(document: Any) -> None:
    referred = {one.rpartition("/")[2] for one in _references(document)}
    assert referred - set(document["components"]["schemas"]) == set()
    assert set(document["components"]["schemas"]) - referred == set()


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for one in part.values():
            yield from _references(one)
    elif isinstance(part, list):
        for one in part:
            yield from _references(one)


async def test_every_example_is_right_by_its_schema_and_by_the_parser(api: Api, bm: str, document: Any) -> None:
    for operation in OPERATIONS:
        if operation.example is None:
            continue
        of = operation.body[0] if isinstance(operation.body, tuple) else operation.body
        schema = {"$ref": f"#/components/schemas/{of.__name__}", "components": document["components"]}
        jsonschema_rs.validate(schema, operation.example)
        msgspec.convert(operation.example, of)


async def test_with_a_token_the_document_says_so(service: Service) -> None:
    api = Api(app_of(service, token=Secret("t")))
    document = (await api.get("/openapi.json", headers={"authorization": "Bearer t"})).json
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/healthz"]["get"]["security"] == []


# ── the page ──────────────────────────────────────────────────────────────────────────────────────


def is_own(answer: Answer) -> bool:
    return b"//" not in re.sub(rb"<!DOCTYPE.*?>", b"", answer.body)


async def test_the_page_comes_with_all_it_needs(api: Api) -> None:
    page = await api.get("/docs")
    assert page.status == 200
    assert is_own(page)
    assert b"<script>" not in page.body
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    for path in re.findall(rb'(?:src|href)="([^"]+)"', page.body):
        answer = await api.get(path.decode())
        assert answer.status == 200, path
        assert answer.headers["content-type"].split(";")[0] in {"text/javascript", "text/css", "image/png"}
        again = await api.get(path.decode(), headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


async def test_only_the_files_of_the_page_are_given_out(api: Api) -> None:
    for name in ("nope", "..", "swagger-ui.LICENSE", "%2e%2e%2fapp.py", "../app.py"):
        assert (await api.get(f"/docs/{name}")).status == 404


def test_the_files_stand_there_with_their_licence() -> None:
    names = {path.name for path in STATIC.iterdir()}
    assert names == {*FILES, "swagger-ui.LICENSE", "swagger-ui.NOTICE", "swagger-ui-bundle.js.LICENSE.txt"}
    assert "Apache License" in (STATIC / "swagger-ui.LICENSE").read_text()
    own = (STATIC / "docs.js").read_text()
    assert 'url: "/openapi.json"' in own
    assert "validatorUrl: null" in own
