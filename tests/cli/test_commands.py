"""Commands against the real server: what they do, print, and end with."""

import json
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Program

from virtflow.cli.exits import Exit


def add_host(virtflow: Program, name: str, pool: str, *words: str) -> None:
    assert virtflow("add", "host", name, "--cpu", "8", "--memory", "32GiB", "--pool", pool, *words).code == Exit.OK


def commands_in(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("virtflow ")]


# ── place and explain ─────────────────────────────────────────────────────────────────────────────


def test_one_vm_is_placed(virtflow: Program) -> None:
    add_host(virtflow, "one-1", "one", "--address", "10.9.0.1")
    ran = virtflow("place", "first", "--cpu", "2", "--memory", "4GiB", "--pool", "one")
    assert (ran.code, ran.out) == (Exit.OK, "first placed on one-1 (10.9.0.1)\n")
    assert virtflow("get", "vm", "first", "-o", "name").lines == ["first"]


def test_a_vm_without_room_waits_and_every_way_out_can_be_pasted(virtflow: Program) -> None:
    add_host(virtflow, "wait-1", "wait")
    ran = virtflow("place", "big", "--cpu", "9", "--pool", "wait", "--label", "gpu=a100")
    assert ran.code == Exit.OK
    assert ran.lines[0] == "big waits for room"
    ways = commands_in(ran.out)
    assert ways
    assert all(way.startswith("virtflow delete vm big && virtflow place big ") for way in ways)
    delete, place = ways[0].split(" && ")
    assert virtflow.line(delete).code == Exit.OK
    assert "placed on" in virtflow.line(place).out


def test_waiting_for_room_ends_with_its_own_exit_code(virtflow: Program) -> None:
    add_host(virtflow, "late-1", "late")
    assert virtflow("place", "never", "--cpu", "99", "--pool", "late", "--wait=0.1").code == Exit.NO_ROOM
    assert virtflow("place", "now", "--cpu", "1", "--pool", "late", "--wait").code == Exit.OK


def test_many_are_placed_and_summed_up(virtflow: Program) -> None:
    add_host(virtflow, "many-1", "many")
    ran = virtflow("place", "web", "--cpu", "1", "--pool", "many", "--count", "10")
    assert ran.code == Exit.OK
    assert ran.lines[-2:] == ["10 VMs: 8 placed on 1 host, 2 waiting", "why: virtflow explain vm web-9"]
    assert virtflow.line("virtflow explain vm web-9").lines[0].startswith("The hosts that may carry it have not")
    names = virtflow("place", "tiny", "--cpu", "1m", "--pool", "many", "--count", "30", "-o", "name").lines
    assert names == [f"tiny-{number}" for number in range(1, 31)]


def test_all_or_nothing_places_nothing_when_one_does_not_fit(virtflow: Program) -> None:
    add_host(virtflow, "gang-1", "gang")
    ran = virtflow("place", "g", "--cpu", "3", "--pool", "gang", "--count", "3", "--all-or-nothing")
    assert "3 VMs: 0 placed on 0 hosts, 3 waiting" in ran.out


def test_a_list_comes_in(virtflow: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    add_host(virtflow, "in-1", "in")
    text = b"- {name: in-a, cpu: 1, pool: in}\n- {name: in-b, cpu: 1, pool: in}\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    assert virtflow("place", "-f", "-", "-o", "name").lines == ["in-a", "in-b"]


def test_an_explanation_names_the_winner_and_places_nothing(virtflow: Program) -> None:
    add_host(virtflow, "why-1", "why")
    ran = virtflow("explain", "x", "--cpu", "2", "--pool", "why", "--strategy", "best_fit")
    assert ran.code == Exit.OK
    assert ran.lines[0] == "x fits: why-1 is the best of 1 possible hosts."
    assert ran.lines[-1] == "place it: virtflow place x --cpu 2 --pool why --strategy best_fit"
    assert virtflow("get", "vm", "x").code == Exit.NOT_FOUND
    assert virtflow("place", "x", "--cpu", "2", "--pool", "why", "--dry-run").lines[0] == ran.lines[0]


def test_a_refusal_has_ways_out_that_work(virtflow: Program) -> None:
    add_host(virtflow, "no-1", "no")
    ran = virtflow("explain", "y", "--cpu", "2", "--memory", "64GiB", "--pool", "no")
    assert ran.code == Exit.NO_ROOM
    assert ran.lines[0] == "y does not fit."
    ways = commands_in(ran.out)
    assert "virtflow place y --cpu 2 --memory 32GiB --pool no" in ways
    for way in ways:
        assert virtflow.line(f"{way} --dry-run").code == Exit.OK


def test_a_list_is_explained_one_after_the_other(virtflow: Program, tmp_path: Path) -> None:
    add_host(virtflow, "seq-1", "seq")
    path = tmp_path / "vms.yaml"
    path.write_text("- {name: a, cpu: 5, pool: seq}\n- {cpu: 5, pool: seq}\n")
    ran = virtflow("explain", "-f", str(path))
    assert (ran.code, ran.lines[-1]) == (Exit.NO_ROOM, "1 of 2 fit, one after the other")


def test_an_existing_one_is_explained(virtflow: Program) -> None:
    add_host(virtflow, "ex-1", "ex")
    virtflow("place", "there", "--cpu", "2", "--pool", "ex")
    assert virtflow("explain", "vm", "there").out == "there is on ex-1\n"
    virtflow("place", "not-there", "--cpu", "99", "--pool", "ex")
    task = json.loads(virtflow("get", "vm", "not-there", "-o", "json").out)[0]["task_id"]
    assert "What would help:" in virtflow("explain", "task", task).out
    assert json.loads(virtflow("explain", "vm", "not-there", "-o", "json").out)["kind"] == "request"


# ── get, describe, delete ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("noun", ["hosts", "vms", "tasks", "pools", "strategies", "processes"])
def test_every_noun_is_listed_in_every_form_by_both_its_names(virtflow: Program, noun: str) -> None:
    virtflow("place", f"listed-{noun}", "--cpu", "1", "--pool", "general")
    singular = {"strategies": "strategy", "processes": "process"}.get(noun, noun[:-1])
    names = virtflow("get", noun, "-o", "name").lines
    items = json.loads(virtflow("get", singular, "-o", "json").out)
    assert names
    assert len(items) == len(names) == len(yaml.safe_load(virtflow("get", noun, "-o", "yaml").out))
    assert len(virtflow("get", noun).lines) == len(names) + 1
    assert len(virtflow("get", noun, "-o", "wide").lines[0]) >= len(virtflow("get", noun).lines[0])
    # what a list names, the next command takes
    assert virtflow("get", noun, names[0]).code == Exit.OK


def test_json_is_what_the_api_says(virtflow: Program) -> None:
    import httpx

    said = httpx.get(f"{virtflow.server}/v1/hosts/bm-001", trust_env=False).json()
    assert json.loads(virtflow("get", "host", "bm-001", "-o", "json").out) == [said]
    assert json.loads(virtflow("describe", "host", "bm-001", "-o", "json").out) == said


def test_lists_are_filtered(virtflow: Program) -> None:
    add_host(virtflow, "f-1", "filter", "--zone", "z9", "--label", "disk=nvme")
    add_host(virtflow, "f-2", "filter")
    virtflow("cordon", "f-2")
    assert virtflow("get", "hosts", "--pool", "filter", "--zone", "z9", "-o", "name").lines == ["f-1"]
    assert virtflow("get", "hosts", "--label", "disk=nvme", "-o", "name").lines == ["f-1"]
    assert virtflow("get", "hosts", "--pool", "filter", "--cordoned", "-o", "name").lines == ["f-2"]
    virtflow("place", "f-vm", "--cpu", "1", "--pool", "filter")
    virtflow("place", "f-not", "--cpu", "99", "--pool", "filter")
    assert virtflow("get", "vms", "--pool", "filter", "--placed", "-o", "name").lines == ["f-vm"]
    assert virtflow("get", "vms", "--pool", "filter", "--pending", "-o", "name").lines == ["f-not"]
    assert virtflow("get", "vms", "--host", "f-1", "--status", "pending", "-o", "name").lines == ["f-vm"]
    assert len(virtflow("get", "tasks", "--pool", "filter", "--state", "queued", "--state", "processing").lines) == 2


def test_a_list_that_is_empty_says_so_aside(virtflow: Program) -> None:
    ran = virtflow("get", "vms", "--pool", "nobody-here")
    assert (ran.code, ran.out, ran.err) == (Exit.OK, "", "No VMs.\n")
    assert virtflow("get", "vms", "--pool", "nobody-here", "-o", "json").out == "[\n]\n"
    assert virtflow("get", "vms", "--pool", "nobody-here", "-o", "yaml").out == "[]\n"


def test_a_list_that_was_cut_short_says_so_aside(virtflow: Program) -> None:
    ran = virtflow("get", "hosts", "--limit", "2")
    assert len(ran.lines) == 3
    assert ran.err == "These are the first 2; --limit shows more, -o name or json shows all.\n"


def test_what_is_there_is_shown_also_when_another_is_not(virtflow: Program) -> None:
    ran = virtflow("get", "hosts", "bm-001", "bm-x", "bm-002", "-o", "name")
    assert (ran.code, ran.lines) == (Exit.NOT_FOUND, ["bm-001", "bm-002"])
    assert "bm-x" in ran.err


def test_things_are_described(virtflow: Program) -> None:
    add_host(virtflow, "desc-1", "desc", "--gpu", "2", "--reserved", "memory=2GiB", "--overcommit", "cpu=4")
    virtflow("place", "desc-vm", "--cpu", "1", "--memory", "1GiB", "--pool", "desc")
    host = virtflow("describe", "host", "desc-1").out
    assert "desc-vm" in host
    assert "cpu" in host
    vm = virtflow("describe", "vm", "desc-vm").out
    assert "host        desc-1" in vm
    task = json.loads(virtflow("get", "vm", "desc-vm", "-o", "json").out)[0]["task_id"]
    assert "state         completed" in virtflow("describe", "task", task).out
    assert "hosts      1" in virtflow("describe", "pool", "desc").out


def test_vms_are_deleted_alone_in_bulk_and_by_filter(virtflow: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    add_host(virtflow, "del-1", "del")
    virtflow("place", "d", "--cpu", "1", "--pool", "del", "--count", "8")
    assert virtflow("delete", "vm", "d-1").out == "d-1 deleted\n"
    ran = virtflow("delete", "vms", "d-2", "d-3", "nobody")
    assert (ran.code, ran.out, ran.err) == (Exit.NOT_FOUND, "2 VMs deleted\n", "virtflow: no VM nobody\n")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"n\n")))
    ran = virtflow("delete", "vms", "--all", "--pool", "del")
    assert ran.code == Exit.FAILED
    assert "Delete 5 VMs of pool del?" in ran.err
    assert virtflow("delete", "vms", "--all", "--pool", "del", "--yes").out == "5 VMs deleted\n"
    assert virtflow("delete", "vm", "never-was").code == Exit.NOT_FOUND


def test_deleting_everything_needs_the_word(virtflow: Program) -> None:
    assert virtflow("delete", "vms").code == Exit.USAGE
    assert virtflow("delete", "vms", "a", "--all").code == Exit.USAGE
    assert virtflow("delete", "vms", "a", "--pool", "x").code == Exit.USAGE


def test_a_host_in_use_is_not_deleted(virtflow: Program) -> None:
    add_host(virtflow, "busy-1", "busy")
    virtflow("place", "busy-vm", "--cpu", "1", "--pool", "busy")
    ran = virtflow("delete", "host", "busy-1")
    assert ran.code == Exit.CONFLICT
    assert "busy-1" in ran.err
    virtflow("delete", "vm", "busy-vm")
    assert virtflow("delete", "host", "busy-1").out == "busy-1 deleted\n"


# ── change ────────────────────────────────────────────────────────────────────────────────────────


def test_hosts_are_cordoned_and_taken_back(virtflow: Program) -> None:
    add_host(virtflow, "c-1", "c")
    assert virtflow("cordon", "c-1").out == "c-1 cordoned; 0 VMs on it\n"
    assert virtflow("explain", "--cpu", "1", "--pool", "c").code == Exit.NO_ROOM
    assert virtflow("uncordon", "c-1").out == "c-1 takes VMs again\n"
    assert virtflow("cordon", "c-1", "c-none").code == Exit.NOT_FOUND


def test_waiting_requests_are_cancelled(virtflow: Program) -> None:
    virtflow("place", "cancel-me", "--cpu", "9999", "--pool", "general")
    task = json.loads(virtflow("get", "vm", "cancel-me", "-o", "json").out)[0]["task_id"]
    assert virtflow("cancel", task).out == f"{task} cancelled\n"
    done = json.loads(virtflow("get", "task", task, "-o", "json").out)[0]
    assert done["state"] == "cancelled"


def test_settings_of_a_pool_that_are_not_named_stay(virtflow: Program) -> None:
    add_host(virtflow, "s-1", "settings")
    assert virtflow("set", "pool", "settings", "--overcommit", "cpu=4", "--strategy", "best_fit").code == Exit.OK
    out = virtflow("set", "pool", "settings", "--closed").out
    assert [word in out for word in ("closed", "best_fit", "cpu=4")] == [True] * 3
    assert virtflow("set", "pool", "settings").code == Exit.USAGE
    assert virtflow("delete", "pool", "settings").code == Exit.OK
    assert "best_fit" not in virtflow("get", "pool", "settings").out


def test_the_pool_without_a_name_is_a_pool(virtflow: Program) -> None:
    add_host(virtflow, "nameless-1", "-")
    assert virtflow("get", "hosts", "--pool", "-", "-o", "name").lines == ["nameless-1"]
    assert virtflow("get", "pool", "-", "-o", "name").lines == ["-"]
    assert virtflow("place", "in-nameless", "--cpu", "1", "--pool", "-").out == "in-nameless placed on nameless-1\n"


def test_a_file_is_applied_and_a_second_time_changes_nothing(virtflow: Program, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "hosts:\n- {name: ap-1, pool: ap, cpu: 8, memory: 16GiB}\n"
        "- {name: ap-2, pool: ap, capacity: {cpu: 4000, memory: 8192}}\n"
        "pools:\n- {name: ap, strategy: best_fit}\n"
    )
    assert virtflow("apply", "-f", str(path)).lines == ["pool ap created", "host ap-1 created", "host ap-2 created"]
    assert virtflow("apply", "-f", str(path)).lines == [
        "pool ap unchanged",
        "host ap-1 unchanged",
        "host ap-2 unchanged",
    ]
    path.write_text("- {name: ap-2, pool: ap, cpu: 6, memory: 8GiB}\n")
    assert virtflow("apply", "-f", str(path)).lines == ["host ap-2 changed"]


def test_a_list_that_was_read_can_be_applied_again(virtflow: Program, tmp_path: Path) -> None:
    add_host(virtflow, "again-1", "again", "--max-vms", "7", "--label", "a=b", "--reserved", "cpu=1")
    path = tmp_path / "again.yaml"
    path.write_text(virtflow("get", "hosts", "--pool", "again", "-o", "yaml").out)
    assert virtflow("apply", "-f", str(path)).lines == ["host again-1 unchanged"]


def test_a_mistake_in_a_file_is_refused_with_its_place(virtflow: Program, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("- {name: bad-1, cpu: 8, memory: 8GiB, zoen: z1}\n")
    ran = virtflow("apply", "-f", str(path))
    assert ran.code == Exit.FAILED
    assert "/items/0/zoen" in ran.err


# ── look ──────────────────────────────────────────────────────────────────────────────────────────


def test_capacity_is_counted(virtflow: Program) -> None:
    add_host(virtflow, "cap-1", "cap")
    add_host(virtflow, "cap-2", "cap")
    ran = virtflow("capacity", "--cpu", "2", "--pool", "cap")
    assert ran.lines[-1] == "In all 8; 4 after the loss of one host."
    assert virtflow("capacity", "--cpu", "2", "--pool", "cap", "-o", "name").out == "8\n"
    assert virtflow("capacity").code == Exit.USAGE


def test_the_fleet_is_drawn(virtflow: Program) -> None:
    out = virtflow("fleet").out
    assert "bm-001" in out
    assert "inventory simulated" in out
    assert "bm-001" not in virtflow("fleet", "--pool", "ai").out
    assert "pools" in json.loads(virtflow("fleet", "-o", "json").out)


def test_events_are_shown(virtflow: Program) -> None:
    add_host(virtflow, "ev-1", "ev")
    [line] = virtflow("events", "--id", "ev-1", "--after", "0").lines
    assert "host.registered" in line
    virtflow("cordon", "ev-1")
    first, second = virtflow("events", "--kind", "host", "--id", "ev-1", "--after", "0", "-o", "json").lines
    assert [json.loads(first)["type"], json.loads(second)["type"]] == ["host.registered", "host.cordoned"]
    followed = virtflow("events", "--follow", "--after", "0", "--type", "host.", "--limit", "3", "-o", "name")
    assert len(followed.lines) == 3
    for _ in range(10):  # whatever other tests have told so far
        virtflow("cordon", "ev-1")
        virtflow("uncordon", "ev-1")
    assert len(virtflow("events").lines) == 20
    assert virtflow("events", "--follow", "--cluster", "--after", "0", "--limit", "1").code == 0


def test_outlets_are_listed_and_one_that_is_not_there_is_not_found(virtflow: Program) -> None:
    listed = virtflow("get", "outlets")
    assert (listed.code, listed.lines[0].split()[:3]) == (0, ["OUTLET", "KIND", "STATE"])
    [callbacks] = json.loads(virtflow("get", "outlets", "-o", "json").out)  # the callbacks of requests
    assert virtflow("get", "outlets", "-o", "name").lines == [callbacks["name"]]
    assert json.loads(virtflow("get", "outlet", callbacks["name"], "-o", "json").out)[0]["kind"] == "webhook"
    missing = virtflow("get", "outlet", "nats")
    assert missing.code == Exit.NOT_FOUND
    assert "no outlet 'nats'" in missing.err


def test_the_server_tells_of_itself(virtflow: Program) -> None:
    out = virtflow("info").out
    assert virtflow.server in out
    assert "least_loaded" in out


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────


def test_a_problem_is_told_with_each_field_and_the_way_out(virtflow: Program) -> None:
    ran = virtflow("place", "No_Name", "--cpu", "1", "--priority", "5", "--deadline", "99999999")
    assert (ran.code, ran.out) == (Exit.FAILED, "")
    assert "  /name: must be 1 to 63 of a-z" in ran.err
    assert "  /deadline_s: " in ran.err


def test_an_unknown_pool_is_told_with_those_there_are(virtflow: Program) -> None:
    ran = virtflow("place", "--cpu", "1", "--pool", "nowhere")
    assert ran.code == Exit.FAILED
    assert ran.err.startswith("virtflow: no pool 'nowhere'\n  known pools: ")


def test_a_name_in_use_is_a_conflict(virtflow: Program) -> None:
    virtflow("place", "twice", "--cpu", "1", "--pool", "general")
    assert virtflow("place", "twice", "--cpu", "1", "--pool", "general").code == Exit.CONFLICT


def test_no_strategy_of_that_name(virtflow: Program) -> None:
    ran = virtflow("get", "strategy", "cleverest")
    assert ran.code == Exit.NOT_FOUND
    assert "least_loaded" in ran.err


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────


def dead_letter(virtflow: Program, name: str) -> str:
    """Of a VM that nothing can carry, and that may not wait for long."""
    virtflow("place", name, "--cpu", "9999", "--pool", "general", "--deadline", "1")
    while True:
        found = [one for one in json.loads(virtflow("dead", "list", "-o", "json").out) if one["vm"] == name]
        if found:
            return str(found[0]["id"])
        time.sleep(0.05)


def test_what_failed_is_listed_sent_again_and_thrown_away(virtflow: Program) -> None:
    letter = dead_letter(virtflow, "dead-1")
    listed = virtflow("dead", "list")
    assert listed.lines[0].split() == ["LETTER", "KIND", "CODE", "AGE", "POOL", "VM"]
    assert any(letter in line and "deadline_exceeded" in line for line in listed.lines)
    sent = virtflow("dead", "requeue", letter)
    assert sent.code == Exit.OK
    again = sent.out.removeprefix(f"{letter} sent again as ").strip()
    assert virtflow("get", "task", again, "-o", "name").lines == [again]
    assert letter not in virtflow("dead", "list", "-o", "name").lines
    assert letter in virtflow("dead", "list", "--all", "-o", "name").lines
    refused = virtflow("dead", "requeue", letter)
    assert (refused.code, refused.out) == (Exit.CONFLICT, "")
    assert f"sent again already as task {again}" in refused.err
    assert virtflow("dead", "delete", letter).out == f"{letter} deleted\n"
    assert virtflow("dead", "delete", letter).code == Exit.NOT_FOUND


def test_all_letters_are_sent_again_or_thrown_away_at_once(virtflow: Program) -> None:
    dead_letter(virtflow, "dead-2")
    assert "sent again as" in virtflow("dead", "requeue", "--all", "--yes").out
    dead_letter(virtflow, "dead-3")
    assert virtflow("dead", "delete", "--all", "--yes", "--kind", "task").code == Exit.OK
    assert virtflow("dead", "delete", "--all", "--yes", "--kind", "message").err == "No dead letters.\n"
    assert virtflow("dead", "requeue").code == Exit.USAGE
    assert virtflow("dead", "delete", "some", "--all").code == Exit.USAGE
    assert virtflow("dead", "list", "--kind", "ghost").code == Exit.FAILED
    assert yaml.safe_load(virtflow("dead", "list", "-o", "yaml").out) is not None
