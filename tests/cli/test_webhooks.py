"""`virtflow webhooks …` against a real server: what it prints, and how it ends."""

import json

import pytest
from tests.cli.conftest import Program

from virtflow.cli.exits import Exit

#: a name that by definition nobody has
URL = "http://hooks.invalid/in"
OWN = "whsec_" + "A" * 32


@pytest.fixture
def made(virtflow: Program, request: pytest.FixtureRequest) -> str:
    name = f"hook-{abs(hash(request.node.name)) % 10**8}"
    ran = virtflow("webhooks", "create", URL, "--name", name, "--event", "task.", "--disabled")
    assert ran.code == Exit.OK, ran.err
    return name


def test_a_webhook_is_created_with_its_secret_shown_once(virtflow: Program) -> None:
    ran = virtflow("webhooks", "create", URL, "--name", "new", "--event", "task.failed", "--description", "for us")
    assert ran.code == Exit.OK
    assert "whsec_" in ran.out
    assert "not shown again" in ran.out
    again = virtflow("webhooks", "get", "new")
    assert "whsec_" not in again.out
    assert "for us" in again.out
    assert virtflow("webhooks", "delete", "new").out == "new deleted\n"
    assert virtflow("webhooks", "get", "new").code == Exit.NOT_FOUND


def test_a_secret_of_ones_own_comes_from_the_environment(virtflow: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("webhooks", "create", URL, "--name", "own", "--disabled", "--secret-from", "MY_SECRET", "-o", "json")
    ran = virtflow(*words)
    assert (ran.code, "MY_SECRET is not set" in ran.err) == (Exit.USAGE, True)
    monkeypatch.setenv("MY_SECRET", OWN)
    assert json.loads(virtflow(*words).out)["secret"] == OWN


def test_webhooks_are_listed(virtflow: Program, made: str) -> None:
    assert made in virtflow("webhooks", "list", "-o", "name").lines
    assert "disabled" in virtflow("webhooks", "list").out


def test_what_is_said_of_one_is_changed(virtflow: Program, made: str) -> None:
    ran = virtflow("webhooks", "update", made, "--event", "host.", "--event", "vm.deleted", "-o", "json")
    assert json.loads(ran.out)["events"] == ["host.", "vm.deleted"]
    assert json.loads(virtflow("webhooks", "update", made, "--all-events", "-o", "json").out)["events"] == []
    nothing = virtflow("webhooks", "update", made)
    assert (nothing.code, "nothing to change" in nothing.err) == (Exit.USAGE, True)
    wrong = virtflow("webhooks", "update", made, "--event", "task.finished")
    assert wrong.code == Exit.FAILED
    assert "did you mean" in wrong.err


def test_it_is_switched_on_and_off_and_rotated(virtflow: Program, made: str) -> None:
    assert virtflow("webhooks", "enable", made).out == f"{made} enabled\n"
    assert virtflow("webhooks", "disable", made).out == f"{made} disabled\n"
    ran = virtflow("webhooks", "rotate", made, "--overlap", "60")
    assert "whsec_" in ran.out
    assert "overlap until" in ran.out


def test_a_test_that_fails_says_why_and_is_listed_and_sent_again(virtflow: Program, made: str) -> None:
    ran = virtflow("webhooks", "test", made)
    assert ran.code == Exit.FAILED
    assert ran.err.startswith(f"virtflow: {made} did not take it: resolve_failed")
    [delivery] = virtflow("webhooks", "deliveries", made, "--state", "dead", "-o", "name").lines
    assert "resolve_failed" in virtflow("webhooks", "deliveries", made).out
    assert virtflow("webhooks", "redeliver", made, delivery).out == f"{delivery} waits to be sent\n"
    assert virtflow("webhooks", "redeliver", made, "nothing").code == Exit.NOT_FOUND
    assert virtflow("webhooks", "replay", made, "--after", "0").code == Exit.OK
    assert virtflow("webhooks", "deliveries", "-").code == Exit.OK


def test_what_is_not_public_is_refused_in_words(virtflow: Program) -> None:
    ran = virtflow("webhooks", "create", "http://169.254.169.254/")
    assert ran.code == Exit.FAILED
    assert "VIRTFLOW_WEBHOOK_ALLOW" in ran.err
    assert "Traceback" not in ran.err
