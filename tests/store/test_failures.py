"""What is shown of a URL."""

import pytest

from virtflow.store.failures import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///virtflow.db", "sqlite:///virtflow.db"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://u@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:p%40q@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
        ("postgresql://u:p@q@h/d", "postgresql://u:***@h/d"),
        ("postgresql:///d?user=u&password=p", "postgresql:/d?…"),
        ("postgresql://h/d?user=u&password=p", "postgresql://h/d?…"),
        ("postgresql://[u:p@h/d", "postgresql:…"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
