"""Text that never prints."""

import re

MASK = "***"
_SECRET_PARAMETER = re.compile(r"([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*", re.IGNORECASE)


class Secret(str):
    """A password or token. Whatever prints, formats or serialises it gets the mask; only `reveal` gives it away.

    It is a string whose characters are the mask, so that even code that knows nothing of secrets leaks nothing.
    """

    __slots__ = ("_hidden",)
    _hidden: str

    def __new__(cls, hidden: str, *, shown: str = MASK) -> "Secret":
        """`shown`: what may be seen of it, such as a URL without its password."""
        secret = super().__new__(cls, shown if hidden else "")
        secret._hidden = hidden
        return secret

    def reveal(self) -> str:
        return self._hidden

    def __eq__(self, other: object) -> bool:
        """Two secrets are compared by what they hide; a secret equals no ordinary text."""
        return isinstance(other, Secret) and self._hidden == other._hidden

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Secret, self._hidden))

    def __reduce__(self) -> tuple[object, ...]:
        # a copy keeps the secret, and a pickle must not write it down
        raise TypeError("a secret is not written down")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Secret":
        return self


def without_secrets(url: str) -> str:
    """A URL as it may be shown: nobody's name or password, no value of a parameter that sounds like a secret."""
    # greedy: a password may itself contain an @ that somebody forgot to encode
    return _SECRET_PARAMETER.sub(rf"\g<1>{MASK}", re.sub(r"://.*@", f"://{MASK}@", url))
