"""`virtflow config show`."""

import json
from collections.abc import Sequence

import yaml

from virtflow.config import Config, show_config
from virtflow.main.doors.door import config_from, guarded, take_option


def config_show(argv: Sequence[str]) -> int:
    """`virtflow config show`: every setting, its value and where it came from."""
    words = list(argv)
    form = take_option(words, "-o", "--output") or "table"
    return guarded(lambda: _config_show(config_from(words), form))


def _config_show(config: Config, form: str) -> int:
    rows = show_config(config)
    if form == "json":
        print(json.dumps([{"setting": name, "value": value, "source": source} for name, value, source in rows]))
    elif form == "yaml":
        print(yaml.safe_dump([{"setting": n, "value": v, "source": s} for n, v, s in rows], sort_keys=False), end="")
    else:
        width, value_width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
        for name, value, source in [("SETTING", "VALUE", "FROM"), *rows]:
            print(f"{name:{width}}  {value:{value_width}}  {source}".rstrip())
    return 0
