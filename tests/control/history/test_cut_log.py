"""When the oldest events are no longer kept, what came later is judged all the same."""

from tests.control.history.conftest import Database, EventBody

from virtflow.store.open import open_store


async def cut(database: Database, *, keep_from: str) -> int:
    """Forgets everything before the event of that VM's placement; returns how many events are left."""
    places = [event.get("vm") for _, events in await database.log() for event in events]
    store = open_store(database.url)
    await store.open()
    try:
        _, newest = await store.event_range()
        keep = newest - places.index(keep_from)
        await store.trim_events(keep=keep)
    finally:
        await store.close()
    return keep


async def test_what_is_kept_holds_when_its_beginning_is_worked_out_from_its_end(database: Database) -> None:
    kept = await cut(database, keep_from="waits")
    report = await database.checked(at_rest=True)
    assert [verdict for verdict in report.verdicts() if verdict.violations] == []
    assert not report.is_whole
    assert report.events == kept


async def test_overcommit_is_seen_in_what_is_kept(database: Database) -> None:
    """The host was full before the oldest event that is kept: then a VM is placed before there is room for it."""
    log = await database.log()
    [freed] = [(last, events) for last, events in log if events[0].get("vm") == "vm-0" and events[0]["kind"] == "vm"]
    [used] = [(last, events) for last, events in log if events[0].get("vm") == "in-its-place"]
    await database.put_events(freed[0], used[1])
    await database.put_events(used[0], freed[1])
    await cut(database, keep_from="taken-back")
    assert (await database.checked()).violated == ["I1"]


async def test_a_row_that_says_more_than_its_events_is_seen(database: Database) -> None:
    await cut(database, keep_from="waits")
    await database.run("UPDATE task SET version = version + 1 WHERE vm_name = 'answered'")
    assert (await database.checked()).violated == ["I10"]


async def test_a_row_of_the_log_that_cannot_be_read_is_told_and_not_thrown(database: Database) -> None:
    newest = (await database.rows("SELECT max(last_seq) FROM event"))[0][0]
    await database.run(f"UPDATE event SET body = {database.blob(b'{broken')} WHERE last_seq = {newest}")
    report = await database.checked()
    assert "I9" in report.violated
    assert "cannot be read" in next(verdict for verdict in report.verdicts() if verdict.id == "I9").first[0].text


async def test_of_many_violations_the_first_are_shown_and_all_are_counted(database: Database) -> None:
    def change(event: EventBody) -> None:
        event["version"] = 5

    for last, events in await database.log():
        for event in events:
            change(event)
        await database.put_events(last, events)
    verdict = next(verdict for verdict in (await database.checked()).verdicts() if verdict.id == "I8")
    assert verdict.violations > len(verdict.first) == 10
    assert verdict.first[0].seq in {1, 2}  # where there are several processes, the first event is an election
