"""A URL that names one server, or several of which one is the right one: `postgresql://user@db-1:5432,db-2:5432/name`."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit


def each_server(url: str) -> Sequence[str]:
    """A URL for each, in the order in which they are named. ValueError: a port is none, or a name is missing."""
    parts = urlsplit(url)
    user, at, places = parts.netloc.rpartition("@")
    found = [urlunsplit(parts._replace(netloc=f"{user}{at}{place}")) for place in places.split(",")]
    if len(found) == 1:
        found = [url]
    for one in found:
        split = urlsplit(one)
        if split.port == 0 or (len(found) > 1 and not split.hostname):
            raise ValueError("a server has a name, and perhaps a port from 1 to 65535")
    return found
