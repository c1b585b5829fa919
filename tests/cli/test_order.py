"""Wanted VMs: from the line, from files, and back to a line."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from virtflow.cli import order as orders
from virtflow.cli.app import app
from virtflow.cli.documents import read_lists
from virtflow.cli.exits import UsageError
from virtflow.cli.options import DedicatedWord, OrderOptions
from virtflow.cli.place import orders_of

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
texts = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("-")
)


@st.composite
def some_orders(draw: st.DrawFn) -> dict[str, object]:
    numbers = st.integers(1, 2**40)
    maybe: dict[str, st.SearchStrategy[object]] = {
        "name": names,
        "pool": st.one_of(st.just(""), names),
        "dedicated": st.sampled_from(["required", "forbidden"]),
        "labels": st.dictionaries(names, texts, min_size=1, max_size=3),
        "zone": texts,
        "strategy": names,
        "weights": st.dictionaries(
            names, st.floats(0, 1000).map(lambda value: round(value, 3)), min_size=1, max_size=3
        ),
        "priority": st.integers(1, 1000),
        "when_unplaceable": st.just("fail"),
        "deadline_s": st.integers(1, 10**6),
    }
    resources = {
        "cpu": draw(numbers),
        **draw(st.dictionaries(st.sampled_from(["memory", "disk", "gpu", "x"]), numbers)),
    }
    chosen = {key: draw(values) for key, values in maybe.items() if draw(st.booleans())}
    if chosen.get("pool") == "default":
        del chosen["pool"]
    return {"resources": resources, **chosen}


def parse(line: str) -> dict[str, object]:
    """The line as the program reads it."""
    program: Any = typer.main.get_command(app)
    command = program.commands["place"]
    context = command.make_context("place", shlex.split(line)[2:])
    given_options = {name: context.params[name] for name in OrderOptions.__dataclass_fields__}
    return orders.order_of(OrderOptions(**given_options), context.params["name"])


@given(some_orders())
def test_a_line_that_is_printed_means_what_was_asked(order: Mapping[str, object]) -> None:
    assert parse(orders.command("place", order)) == order


def test_a_line_is_as_short_as_it_can_be() -> None:
    order = {
        "name": "web-1",
        "resources": {"cpu": 4000, "memory": 8192, "gpu": 0, "vms": 1},
        "pool": "default",
        "dedicated": "allowed",
        "labels": {},
        "zone": "",
        "priority": 0,
        "when_unplaceable": "wait",
    }
    assert orders.command("place", order) == "virtflow place web-1 --cpu 4 --memory 8GiB"


def test_everything_that_can_be_said_reaches_the_api() -> None:
    options = OrderOptions(
        cpu="4",
        memory="8GiB",
        disk="100",
        gpu=1,
        resource=["licences=2"],
        pool="general",
        dedicated=DedicatedWord.REQUIRED,
        label=["gpu=a100"],
        zone="z1",
        strategy="hybrid",
        weight=["cpu=0.7"],
        priority=5,
        fail=False,
        deadline=60,
    )
    assert orders.order_of(options, "web-1") == {
        "name": "web-1",
        "resources": {"cpu": 4000, "memory": 8192, "disk": 100, "gpu": 1, "licences": 2},
        "pool": "general",
        "dedicated": "required",
        "labels": {"gpu": "a100"},
        "zone": "z1",
        "strategy": "hybrid",
        "weights": {"cpu": 0.7},
        "priority": 5,
        "when_unplaceable": "wait",
        "deadline_s": 60,
    }


def test_what_is_not_said_is_left_to_the_server() -> None:
    assert orders.order_of(OrderOptions(cpu="1")) == {"resources": {"cpu": 1000}}


@pytest.mark.parametrize(
    ("name", "numbered"),
    [
        ("web", ["web-1", "web-2", "web-3"]),
        ("web-1", ["web-1", "web-2", "web-3"]),
        ("web-09", ["web-09", "web-10", "web-11"]),
        ("7", ["7", "8", "9"]),
        (None, [None, None, None]),
    ],
)
def test_many_are_numbered(name: str | None, numbered: list[str | None]) -> None:
    order = {"name": name} if name else {}
    assert [each.get("name") for each in orders.numbered(order, 3)] == numbered


def test_changes_are_a_merge_patch() -> None:
    order = {"resources": {"cpu": 1, "gpu": 2}, "labels": {"a": "1", "b": "2"}, "zone": "z"}
    changes = {"resources": {"gpu": 0}, "labels": {"a": None}, "zone": "", "pool": "ai"}
    changed = orders.changed(order, changes)
    assert changed == {"resources": {"cpu": 1, "gpu": 0}, "labels": {"b": "2"}, "zone": "", "pool": "ai"}
    assert orders.command("place", changed) == "virtflow place --cpu 0.001 --pool ai --label b=2"


# ── files ─────────────────────────────────────────────────────────────────────────────────────────

YAML = "- name: web-1\n  cpu: 4\n  memory: 8GiB\n- name: web-2\n  resources: {cpu: 500, memory: 1024}\n  pool: ai\n"
JSON = '[{"name":"web-1","cpu":4,"memory":"8GiB"},{"name":"web-2","resources":{"cpu":500,"memory":1024},"pool":"ai"}]'
TOML = (
    '[[vms]]\nname = "web-1"\ncpu = 4\nmemory = "8GiB"\n'
    '[[vms]]\nname = "web-2"\npool = "ai"\nresources = {cpu = 500, memory = 1024}\n'
)
WANTED = [
    {"name": "web-1", "resources": {"cpu": 4000, "memory": 8192}},
    {"name": "web-2", "resources": {"cpu": 500, "memory": 1024}, "pool": "ai"},
]


def read(path: Path) -> list[dict[str, object]]:
    return orders_of(OrderOptions(), None, str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", YAML),
        ("a.json", JSON),
        ("a.toml", TOML),
        ("a", JSON),
        ("b", f"vms: {JSON}"),
        ("c", f'{{"items": {JSON}}}'),
    ],
)
def test_files_of_every_kind_say_the_same(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read(path) == WANTED


def test_one_alone_needs_no_list(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("name: web-1\ncpu: 4\nmemory: 8GiB\n")
    assert read(path) == WANTED[:1]


def test_what_was_answered_can_be_placed_again(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(
        '[{"name":"web-1","id":"x","host":"bm-1","status":"pending","resources":{"cpu":4000,"memory":8192}}]'
    )
    assert read(path) == WANTED[:1]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "[{", "is not readable"),
        ("a.yaml", "a: [", "is not readable"),
        ("a.toml", "a =", "is not readable"),
        ("a.yaml", "!!python/object/apply:os.system [id]", "is not readable"),
        ("a.yaml", "7", "neither a list nor a table"),
        ("a.yaml", "[7]", "must be a list of tables"),
        ("a.yaml", "[]", "there is nothing in it"),
        ("a.toml", "[[hosts]]\na=1\n[[vms]]\nb=1", "'hosts' is not known"),
        ("a.yaml", "- cpu: much", "item 1: cpu 'much' is not understood"),
        ("a.yaml", "- resources: 7", "item 1: resources must be a table"),
    ],
)
def test_what_is_no_list_of_vms_is_refused_with_the_place(name: str, text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        read(path)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read(tmp_path / "bytes")


def test_a_file_and_options_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stands alone"):
        orders_of(OrderOptions(cpu="4"), None, "x.yaml")


def test_a_file_may_hold_several_kinds(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("hosts: [{name: a}]\npools: [{name: b}]\n")
    assert read_lists(str(path), ["hosts", "pools"]) == {"hosts": [{"name": "a"}], "pools": [{"name": "b"}]}
