"""Which database a URL names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from virtflow.model.errors import InvalidSetting
from virtflow.model.servers import each_server
from virtflow.store.contract import Store
from virtflow.store.failures import SETTING, without_password
from virtflow.store.vault import CLEAR, Vault

EXPECTED = (
    "sqlite:///relative/path, sqlite:////absolute/path, sqlite:// (gone at the end), or postgresql://user@host/name"
)


def open_store(url: str, *, reading: bool = False, origin: str = "", vault: Vault = CLEAR) -> Store:
    """The store for a URL, not yet connected: `await store.open()` does that.

    `reading`: to look at a database that another process may be using. `origin`: who writes, where several do.
    `vault`: what seals secrets.
    """
    try:
        parts = urlsplit(url)
        each_server(url)
    except ValueError as error:
        raise _refused(url) from error
    if parts.scheme == "sqlite":
        return _sqlite(url, reading=reading, origin=origin, vault=vault)
    if parts.scheme in {"postgresql", "postgres"} and parts.path.strip("/"):
        from virtflow.store.postgres import PostgresStore

        return PostgresStore(url, reading=reading, origin=origin, vault=vault)
    raise _refused(url)


def _sqlite(url: str, *, reading: bool, origin: str, vault: Vault) -> Store:
    from virtflow.store.sqlite import SqliteStore

    path = url.removeprefix("sqlite:")
    if path in {"", "//"}:
        return SqliteStore(None, origin=origin, vault=vault)
    if not path.startswith("///") or path.strip("/") == "" or path.endswith("/") or "?" in path or "\0" in path:
        raise _refused(url)
    return SqliteStore(Path(unquote(path[3:])), reading=reading, origin=origin, vault=vault)


def _refused(url: str) -> InvalidSetting:
    return InvalidSetting(SETTING, without_password(url), expected=EXPECTED)
