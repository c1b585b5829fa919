"""demo."""


def demo() -> int:
    """See it work."""
    return 0
