"""The page at /docs: Swagger UI as it comes, from our own files, so that it works without any other network."""

import hashlib
from functools import lru_cache
from pathlib import Path

from virtflow.api.errors import NoSuchRoute
from virtflow.api.exchange import Exchange
from virtflow.control.orders import Rendered

STATIC = Path(__file__).parent / "static"
FILES = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
#: Swagger UI sets styles on elements and shows pictures that it carries within; nothing comes from elsewhere
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE = b"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>virtflow API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/docs.js"></script>
</body>
</html>
"""


def page() -> Rendered:
    return (
        200,
        _PAGE,
        (
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", POLICY),
            ("referrer-policy", "no-referrer"),
        ),
    )


def file(exchange: Exchange, name: str) -> Rendered:
    kind = FILES.get(name)
    if kind is None:
        raise NoSuchRoute(f"nothing lives at {exchange.shown_path}", remedy="see /docs")
    content, tag = _read(name)
    headers = (("content-type", kind), ("etag", tag), ("cache-control", "no-cache"))
    if exchange.headers.get(b"if-none-match", b"").decode("latin-1") == tag:
        return 304, b"", headers
    return 200, content, headers


@lru_cache(maxsize=len(FILES))
def _read(name: str) -> tuple[bytes, str]:
    """Read when first asked for: most processes never show the page."""
    content = (STATIC / name).read_bytes()
    return content, f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
