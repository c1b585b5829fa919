"""docs/webhooks.md says what the code does: the snippet verifies, the tables and pictures are those of the code."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_tables import rows

from virtflow.control.breaker import WAIT_S_MAX
from virtflow.control.line import AGE_S_MAX, RETRY_WAITS_S
from virtflow.events import guard, post, wire
from virtflow.events.signature import sign
from virtflow.model import webhook
from virtflow.model.errors import VirtflowError
from virtflow.model.secret import Secret
from virtflow.model.webhook import DELIVERY_NEXT, NEXT, secret_text

PAGE = (Path(__file__).parents[2] / "docs/webhooks.md").read_text()
SECRET = secret_text(b"k" * 32)


@pytest.fixture(scope="module")
def is_genuine() -> Any:
    """The function of the page, as whoever pastes it gets it."""
    names: dict[str, Any] = {}
    exec(PAGE.partition("```python\n")[2].partition("```")[0], names)
    return names["is_genuine"]


def headers(body: bytes, *, at: int, secrets: tuple[str, ...] = (SECRET,)) -> dict[str, str]:
    signature = sign(map(Secret, secrets), message_id="h-1", timestamp=at, body=body)
    return {"webhook-id": "h-1", "webhook-timestamp": str(at), "webhook-signature": signature}


def test_the_snippet_accepts_what_we_send_and_nothing_else(is_genuine: Any) -> None:
    now, body = int(time.time()), b'{"a": 1}'
    assert is_genuine(SECRET, headers(body, at=now), body)
    other = secret_text(b"o" * 32)
    assert is_genuine(SECRET, headers(body, at=now, secrets=(other, SECRET)), body)
    assert not is_genuine(SECRET, headers(body, at=now, secrets=(other,)), body)
    assert not is_genuine(SECRET, headers(body, at=now), body + b" ")
    assert not is_genuine(SECRET, headers(body, at=now - 400), body)
    assert not is_genuine(SECRET, {**headers(body, at=now), "webhook-id": "h-2"}, body)


@pytest.mark.parametrize(("name", "table"), [("webhook", NEXT), ("delivery", DELIVERY_NEXT)])
def test_the_diagrams_of_states_are_drawn_from_the_tables(name: str, table: Any) -> None:
    drawn = PAGE.partition(f"<!-- states:{name} -->\n")[2].partition("<!-- /states -->")[0]
    assert drawn == webhook.diagram(table)


def test_every_code_of_a_try_is_told() -> None:
    errors = {
        one.code
        for module in (guard, wire)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, VirtflowError) and one.__module__ == module.__name__
    }
    source = "".join(Path(str(module.__file__)).read_text() for module in (post, wire))
    said = set(re.findall(r'code="([a-z_]+)"', source))
    assert {name for name, cells in rows("webhooks.md").items() if len(cells) == 1} >= errors | said
    told = PAGE.partition("## What went wrong, as a word")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", told, re.MULTILINE)) == errors | said


def test_the_waits_are_those_of_the_code() -> None:
    assert "5 s, 30 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h" in PAGE
    assert (
        tuple(
            seconds * unit
            for seconds, unit in ((5, 1), (30, 1), (5, 60), (30, 60), *((h, 3600) for h in (2, 5, 10, 14, 20, 24)))
        )
        == RETRY_WAITS_S
    )
    assert (WAIT_S_MAX, AGE_S_MAX) == (10 * 60, 4 * 86_400)
    assert "up to 10 min" in PAGE
    assert "for up to four days" in PAGE
