"""Any possible host, each as likely as the other, drawn from the request's own key."""

from virtflow.engine.strategies.strategy import Possible, Strategy
from virtflow.model.plan import Request

_BITS_64 = 2**64 - 1
#: folds a key of any length, every byte of it, before mixing
_PRIME = 2**89 - 1


def draw(key: bytes) -> int:
    """64 evenly mixed bits of a key. Ours, and fixed for ever: a plan can be computed again years later."""
    bits = int.from_bytes(b"\x01" + key, "big") % _PRIME
    bits = (bits ^ (bits >> 32)) & _BITS_64
    bits = (bits + 0x9E3779B97F4A7C15) & _BITS_64
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _BITS_64
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _BITS_64
    return bits ^ (bits >> 31)


def _drawn(possible: Possible, request: Request, last: str | None) -> int:
    return possible.nth(draw(request.key))


random = Strategy(
    name="random",
    optimises="Uniform over the possible hosts, reproducible: the same request draws the same host.",
    formula="the host at rank draw(key of the request) × count / 2^64 among the possible ones, by name",
    choose=_drawn,
)
