"""Asking a server on this machine."""

import time

from tests.client.servers import Answer, scripted

from virtflow.testing.ask import ask
from virtflow.testing.ports import free_port


def test_an_answer_is_an_answer_whatever_it_says() -> None:
    with scripted(Answer({"a": "b"}, status=503)) as server:
        answer = ask(f"{server.address}/readyz", within_s=5)
    assert answer is not None
    assert answer.status_code == 503


def test_nobody_there_is_no_answer() -> None:
    assert ask(f"http://127.0.0.1:{free_port()}/readyz", within_s=5) is None


def test_asking_is_cheap_enough_to_be_done_all_the_time() -> None:
    """What makes a client for each question reads all certificates of this machine each time: 20 ms of a core."""
    url = f"http://127.0.0.1:{free_port()}/"
    ask(url, within_s=1)
    began_s = time.process_time()
    for _ in range(50):
        ask(url, within_s=1)
    assert (time.process_time() - began_s) / 50 < 0.01
