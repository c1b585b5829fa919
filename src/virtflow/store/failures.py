"""What can go wrong in a database, in our words: name the setting, say the cause, show the way out."""

from urllib.parse import urlsplit, urlunsplit

from virtflow.model.errors import InvalidSetting, VirtflowError

SETTING = "VIRTFLOW_DATABASE_URL"


class UnusableDatabase(InvalidSetting):
    """The setting is well formed, but what it names cannot be used."""

    def __init__(self, url: str, *, cause: str, remedy: str) -> None:
        shown = without_password(url)
        VirtflowError.__init__(self, f"{SETTING}={shown!r} cannot be used: {cause}", remedy=remedy)
        self.setting = SETTING
        self.value = shown


class ImpossibleValue(VirtflowError):
    """The database refused a value that our own checks should have refused before."""


def without_password(url: str) -> str:
    """The URL as it may be shown: secrets stand in the user part and sometimes in the query."""
    if url.startswith("sqlite:"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition(":")[0] + ":…"
    host = parts.netloc.rpartition("@")[2]
    user = parts.username or ""
    place = f"{user}:***@{host}" if "@" in parts.netloc else host
    return urlunsplit((parts.scheme, place, parts.path, "…" if "password" in parts.query else parts.query, ""))
