"""Each invariant sees its own violation: a lie that is planted by SQL is told under exactly one number."""

from collections.abc import Awaitable, Callable

import pytest
from tests.control.history.conftest import Database, EventBody

Plant = Callable[[Database], Awaitable[None]]

PLANTS: dict[str, tuple[str, Plant]] = {}
#: judged only when nobody is at work
AT_REST: set[str] = set()


def plant(invariant: str, *, at_rest: bool = False) -> Callable[[Plant], Plant]:
    def keep(planting: Plant) -> Plant:
        name = f"{invariant}: {planting.__name__}"
        PLANTS[name] = (invariant, planting)
        if at_rest:
            AT_REST.add(name)
        return planting

    return keep


def sql(invariant: str, name: str, *statements: str, at_rest: bool = False) -> None:
    async def planting(database: Database) -> None:
        await database.run(*statements)

    planting.__name__ = name
    plant(invariant, at_rest=at_rest)(planting)


@plant("I1")
async def a_vm_was_placed_before_there_was_room(database: Database) -> None:
    """The deletion that made the room is told after the placement that used it."""
    log = await database.log()
    [freed] = [(last, events) for last, events in log if events[0].get("vm") == "vm-0" and events[0]["kind"] == "vm"]
    [used] = [(last, events) for last, events in log if events[0].get("vm") == "in-its-place"]
    await database.put_events(freed[0], used[1])
    await database.put_events(used[0], freed[1])


sql("I2", "a_host_says_it_gave_more", "UPDATE room SET used_cpu = used_cpu + 1, shrunk = (1 = 1) WHERE host_id = 2")
sql("I2", "a_host_miscounts_its_vms", "UPDATE room SET instances = instances + 1 WHERE host_id = 1")


@plant("I2")
async def a_delta_is_not_what_the_vm_holds(database: Database) -> None:
    def change(event: EventBody) -> None:
        event["delta"]["cpu"] = 999

    await database.change_event(change, vm="vm-1", type="task.completed")


@plant("I3")
async def a_task_ends_twice(database: Database) -> None:
    step = {"version": 3, "at_ms": 1, "was": "queued", "now": "cancelled"}
    task = await database.task_id("taken-back")
    await database.add_event({"type": "task.cancelled", "kind": "task", "id": task, **step})
    await database.run("UPDATE task SET version = 3 WHERE vm_name = 'taken-back'")


sql(
    "I3", "a_task_is_left_undecided",
    "UPDATE task SET when_unplaceable = 0, attempt = 1 WHERE vm_name = 'patient'",
    at_rest=True,
)  # fmt: skip


@plant("I4")
async def a_task_goes_on_after_its_end(database: Database) -> None:
    step = {"version": 2, "at_ms": 1, "was": "queued", "now": "queued"}
    await database.add_event({"type": "task.retried", "kind": "task", "id": await database.task_id("vm-1"), **step})
    await database.run("UPDATE task SET version = 2 WHERE vm_name = 'vm-1'")


@plant("I4")
async def a_vm_is_deleted_twice(database: Database) -> None:
    await database.add_event(
        {"type": "vm.deleted", "kind": "vm", "id": await database.task_id("taken-back"), "version": 2, "at_ms": 1}
    )


@plant("I5")
async def a_step_leads_where_it_cannot(database: Database) -> None:
    await database.change_event(lambda event: event.update(now="processing"), type="task.accepted", vm="waits")


@plant("I5")
async def what_was_never_there_is_deleted(database: Database) -> None:
    await database.add_event(
        {"type": "vm.deleted", "kind": "vm", "id": "00000000-0000-4000-8000-00000000000f", "version": 2, "at_ms": 1}
    )


@plant("I7")
async def a_vm_is_there_and_deleted(database: Database) -> None:
    await database.run("INSERT INTO gone (id, deleted_ms) SELECT id, 1 FROM instance WHERE name = 'vm-1'")


sql("I7", "two_vms_bear_one_name", "DROP INDEX instance_name", "UPDATE instance SET name = 'vm-1' WHERE name = 'vm-2'")


@plant("I8")
async def a_host_leaps_over_versions(database: Database) -> None:
    await database.change_event(lambda event: event.update(version=5), type="host.cordoned", id="bm-2")
    await database.run("UPDATE host SET version = 5 WHERE name = 'bm-2'")


@plant("I8")
async def a_task_leaps_over_versions(database: Database) -> None:
    await database.change_event(lambda event: event.update(version=7), type="task.completed", vm="waits")
    await database.run("UPDATE task SET version = 7 WHERE vm_name = 'waits'")


@plant("I8")
async def a_vm_leaps_over_versions(database: Database) -> None:
    await database.change_event(lambda event: event.update(version=9), type="vm.deleted", vm="vm-0")


@plant("I8")
async def a_pool_leaps_over_versions(database: Database) -> None:
    await database.change_event(lambda event: event.update(version=4), type="pool.changed")
    await database.run("UPDATE pool SET version = 4")


sql(
    "I9", "a_number_is_left_out",
    "UPDATE event SET first_seq = first_seq + 1000001, last_seq = last_seq + 1000001 WHERE first_seq > 6",
    "UPDATE event SET first_seq = first_seq - 1000000, last_seq = last_seq - 1000000 WHERE first_seq > 1000000",
    "UPDATE counter SET value = value + 1 WHERE name = 'event'",
)  # fmt: skip
sql("I9", "the_counter_ran_ahead", "UPDATE counter SET value = value + 1 WHERE name = 'event'")
sql("I10", "a_task_changed_in_silence", "UPDATE task SET version = version + 1 WHERE vm_name = 'vm-3'")
sql("I10", "a_task_moved_in_silence", "UPDATE task SET host_id = 1 WHERE vm_name = 'waits'")
sql("I10", "a_task_went_back_in_silence", "UPDATE task SET ended_ms = NULL WHERE vm_name = 'vm-3'")
sql("I10", "a_vm_changed_in_silence", "UPDATE instance SET version = version + 1 WHERE name = 'vm-3'")
sql("I10", "a_host_changed_in_silence", "UPDATE host SET version = version + 1 WHERE name = 'bm-2'")
sql("I10", "a_cordon_was_lost", "UPDATE host SET cordoned = (1 = 0) WHERE name = 'bm-2'")
sql("I10", "a_pool_changed_in_silence", "UPDATE pool SET version = version + 1")
sql("I11", "an_outlet_was_not_told_of_the_last", "UPDATE outlet SET cursor = cursor - 1", at_rest=True)
sql("I12", "an_outlet_was_told_what_never_happened", "UPDATE outlet SET cursor = cursor + 5")
_DELIVERY = (
    "INSERT INTO delivery (id, line, seq, type, subject, message_id, body, state, tries, next_try_ms, created_ms, "
    "since_ms) SELECT id, 'shop', {seq}, 'x', 'x', 'x', id, {state}, 0, 0, 1, 1 FROM task WHERE vm_name = 'vm-1'"
)
sql("I11", "a_receiver_was_not_told_yet", _DELIVERY.format(seq=1, state=0), at_rest=True)
sql("I12", "a_receiver_was_told_what_never_happened", _DELIVERY.format(seq=1_000_000, state=1))
sql("I14", "a_fence_was_never_given", "UPDATE counter SET value = 0 WHERE name = 'fence'")
sql("I14", "a_vm_bears_a_fence_to_come", "UPDATE instance SET fence = 9 WHERE name = 'vm-3'")


async def test_who_was_elected_and_died_before_he_took_the_fence_breaks_nothing(database: Database) -> None:
    """The number of a term and the fence count different things: elections, and leaders who began to decide."""
    await database.run(
        "INSERT INTO lease (name, holder, fence, beat, session, since_ms) VALUES ('scheduler', 'x', 9, 1, '', 1) "
        "ON CONFLICT (name) DO UPDATE SET fence = 9"
    )
    assert (await database.checked(at_rest=True)).violated == []


@plant("I14")
async def an_old_leader_decided(database: Database) -> None:
    await database.change_event(lambda event: event.update(fence=1), type="task.completed", vm="answered")


@plant("I14")
async def a_leader_was_given_an_old_fence(database: Database) -> None:
    await database.add_event({"type": "leader.elected", "kind": "leader", "id": "scheduler", "fence": 1, "at_ms": 1})


@plant("I14")
async def two_processes_held_one_fence(database: Database) -> None:
    for last, events in await database.log():
        if events[0].get("vm") == "answered":
            await database.run(f"UPDATE event SET origin = 'somebody else' WHERE last_seq = {last}")


sql(
    "I15", "a_task_was_answered_to_two_keys",
    "INSERT INTO answer (principal, key, request_hash, status, created_ms, headers, body) "
    "SELECT principal, 'another', request_hash, status, created_ms, headers, body FROM answer",
)  # fmt: skip


@plant("I16")
async def an_acknowledged_task_is_not_there(database: Database) -> None:
    body = database.blob(b'{"task_id": "00000000-0000-4000-8000-00000000000f"}')
    await database.run(f"UPDATE answer SET body = {body}")


sql("I19", "a_waiting_task_lost_its_vm", "DELETE FROM instance WHERE name = 'patient'")


@plant("I19")
async def a_vm_has_no_task(database: Database) -> None:
    columns = "shape_id, kind, status, host_id, generation, observed_generation, version, fence, created_ms, placed_ms"
    await database.run(
        f"INSERT INTO instance (id, name, {columns}) "
        f"SELECT {database.blob(bytes(15) + b'x')}, 'nobody', {columns} FROM instance WHERE name = 'patient'"
    )


sql("I20", "a_task_was_tried_too_often", "UPDATE task SET attempt = 99 WHERE vm_name = 'hopeless'")
sql("I20", "a_task_waits_past_its_deadline", "UPDATE task SET deadline_ms = 1 WHERE vm_name = 'patient'")


@pytest.mark.parametrize("name", PLANTS)
async def test_a_planted_violation_is_told_under_its_number_alone(database: Database, name: str) -> None:
    invariant, planting = PLANTS[name]
    await planting(database)
    report = await database.checked(at_rest=name in AT_REST)
    assert {verdict.id: verdict.first for verdict in report.verdicts() if verdict.violations}.keys() == {invariant}


async def test_an_honest_database_holds(database: Database) -> None:
    report = await database.checked(at_rest=True)
    assert [verdict for verdict in report.verdicts() if verdict.violations] == []
    assert (report.hosts, report.vms, report.tasks, report.answers) == (3, 7, 11, 1)
    assert report.events == report.newest_event == sum([len(events) for _, events in await database.log()])


async def test_a_receiver_that_is_switched_off_is_owed_nothing(database: Database) -> None:
    await database.run(
        _DELIVERY.format(seq=1, state=0),
        "UPDATE outlet SET name = 'webhook/shop', enabled = (1 = 0), cursor = 1 WHERE name = 'bus'",
    )
    assert (await database.checked(at_rest=True)).violated == []
