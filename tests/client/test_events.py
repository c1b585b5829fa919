"""Events over lines that break."""

import itertools
import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.servers import CUT, Answer, scripted

from virtflow.client import ApiError, ClientError, NotReachable
from virtflow.client.events import RECONNECTS_MAX, read_stream


def frame(seq: int, **fields: object) -> bytes:
    data = json.dumps({"seq": seq, "type": "task.accepted", **fields}, ensure_ascii=False)
    return f"id: {seq}\nevent: task.accepted\ndata: {data}\n\n".encode()


def stream(*frames: bytes) -> Answer:
    return Answer(b": welcome\n\n" + b"".join(frames), headers={"Content-Type": "text/event-stream"})


def log(*seqs: int, next_after: int, newest: int) -> Answer:
    return Answer({"items": [{"seq": seq} for seq in seqs], "next_after": next_after, "oldest": 1, "newest": newest})


def numbers(chunks: Sequence[bytes]) -> list[int]:
    return [event.seq for event in read_stream(iter(chunks)) if event is not None]


def cut_at(text: bytes, places: Sequence[int]) -> Iterator[bytes]:
    edges = [0, *sorted(places), len(text)]
    return (text[start:end] for start, end in itertools.pairwise(edges))


@given(places=st.lists(st.integers(0, 400)))
def test_events_are_read_however_they_are_cut_into_pieces(places: list[int]) -> None:
    text = b": hello\n\n" + frame(1) + b"retry: 500\n\n" + frame(2, text="a\u2028b").replace(b"\n", b"\r\n") + frame(3)
    pieces = list(cut_at(text, [min(place, len(text)) for place in places]))
    assert numbers(pieces) == [1, 2, 3]


def test_an_unfinished_event_is_dropped() -> None:
    assert numbers([frame(1), frame(2)[:-1]]) == [1]


def test_an_event_in_several_lines_is_one() -> None:
    assert numbers([b'id: 4\ndata: {"type":\ndata: "x"}\n\n']) == [4]


def test_a_line_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("virtflow.client.events.LINE_BYTES_MAX", 100)
    with pytest.raises(ClientError, match="longer than"):
        numbers([b"data: " + b"x" * 200])


def test_following_resumes_where_it_was() -> None:
    with scripted(stream(frame(5), frame(6)), CUT, stream(frame(6), frame(7))) as server, server.client() as client:
        events = client.events.follow(after=4, types=["task."])
        assert [event.seq for event in itertools.islice(events, 3)] == [5, 6, 7]
        assert [seen.headers["Last-Event-ID"] for seen in server.seen] == ["4", "6", "6"]
        assert {seen.path for seen in server.seen} == {"/v1/events/stream?type=task."}
        events.close()


def test_following_from_now_on_loses_nothing_before_the_first_event() -> None:
    with scripted(log(newest=41, next_after=41), stream(), stream(frame(42))) as server, server.client() as client:
        events = client.events.follow()
        assert next(events).seq == 42
        assert [seen.headers.get("Last-Event-ID") for seen in server.seen] == [None, "41", "41"]
        events.close()


def test_a_server_that_closes_and_says_so_is_reconnected() -> None:
    closing = b"event: server.closing\ndata: {}\nretry: 500\n\n"
    with scripted(stream(frame(1), closing), stream(frame(2))) as server, server.client() as client:
        events = client.events.follow(after=0)
        assert [event.seq for event in itertools.islice(events, 2)] == [1, 2]
        events.close()


def test_following_gives_up_when_nobody_answers_for_long() -> None:
    with scripted(CUT) as server, server.client() as client:
        with pytest.raises(NotReachable):
            next(client.events.follow(after=0))
        assert len(server.seen) == RECONNECTS_MAX + 1
        assert server.slept[:3] == [0.2, 0.4, 0.8]


def test_events_that_are_gone_are_not_asked_for_again() -> None:
    gone = Answer({"code": "events_gone", "detail": "gone"}, 410)
    with scripted(gone) as server, server.client() as client:
        with pytest.raises(ApiError):
            next(client.events.follow(after=0))
        assert len(server.seen) == 1


def test_a_piece_of_the_log_ends_where_it_ended_when_we_began() -> None:
    pieces = (
        log(1, 2, next_after=2, newest=4),
        log(3, next_after=4, newest=900),
    )
    with scripted(*pieces) as server, server.client() as client:
        assert [event.seq for event in client.events.list(after=0)] == [1, 2, 3]
        assert "after=2" in server.seen[1].path
