"""Which URL names which database."""

from pathlib import Path

import pytest

from virtflow.model.errors import InvalidSetting
from virtflow.store.open import open_store
from virtflow.store.postgres import PostgresStore
from virtflow.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///virtflow.db", Path("virtflow.db")),
        ("sqlite:///data/virtflow.db", Path("data/virtflow.db")),
        ("sqlite:////var/lib/virtflow.db", Path("/var/lib/virtflow.db")),
        ("sqlite:///a%20b.db", Path("a b.db")),
        ("sqlite://", None),
    ],
)
def test_files(url: str, path: Path | None) -> None:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store._path == path


@pytest.mark.parametrize("url", ["postgresql://u@h/d", "postgres://u:p@h:5432/d?sslmode=require"])
def test_servers(url: str) -> None:
    assert isinstance(open_store(url), PostgresStore)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "virtflow.db",
        "/var/lib/virtflow.db",
        "sqlite:virtflow.db",
        "sqlite://virtflow.db",
        "sqlite:///",
        "sqlite:///data/",
        "sqlite:///a.db?mode=ro",
        "mysql://u@h/d",
        "postgresql://u:s3cret@h",
        "postgresql://u:s3cret@h/",
        "postgresql://u:s3cret@h:port/d",
        "postgresql+asyncpg://u:s3cret@h/d",
        "postgresql://[u:s3cret@h/d",
    ],
)
def test_anything_else_is_refused_with_what_would_be_right(url: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        open_store(url)
    assert "VIRTFLOW_DATABASE_URL" in caught.value.detail
    assert "sqlite:///" in caught.value.remedy
    assert "s3cret" not in caught.value.detail
