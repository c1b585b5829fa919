"""What a receiver heard is judged: turned round, or said again by one who woke up."""

import json

from chaos.deliveries import out_of_order
from chaos.nemeses.relay import echoes

from virtflow.testing.receiver import Message, Receiver


def heard(*events: tuple[str, int]) -> list[Message]:
    bodies = [json.dumps({"subject": subject, "data": {"seq": seq}}).encode() for subject, seq in events]
    return [Message(float(place), "/hook", {}, body, True) for place, body in enumerate(bodies)]


def test_what_arrives_before_an_older_event_of_the_same_object_is_turned_round() -> None:
    assert out_of_order(heard(("vm/a", 1), ("vm/a", 3), ("vm/a", 2))) == ["event 2 of vm/a arrived after 3"]


def test_other_objects_and_what_comes_again_may_come_in_any_order() -> None:
    assert out_of_order(heard(("vm/a", 1), ("vm/b", 4), ("vm/a", 2), ("vm/a", 3), ("vm/a", 1), ("vm/b", 4))) == []


def test_who_woke_up_and_says_what_the_heir_has_said_is_an_echo() -> None:
    hook = Receiver()
    hook.messages = heard(("vm/a", 1), ("vm/a", 1), ("vm/a", 2), ("vm/b", 3), ("vm/a", 2))
    # the heir began with the second: what the other had sent last comes again, and that is his right
    assert echoes(hook, since=1, awake=3, who="one") == ["event 2 came again after one woke up"]
    assert echoes(hook, since=1, awake=5, who="one") == []
