"""Are the settings right, one by one and together?"""

from collections.abc import Iterator, Mapping

from virtflow.config import BY_NAME, OLD_VARIABLES, Config, InvalidSettings, load_config
from virtflow.control.strategy_file import read_strategy
from virtflow.engine import strategies
from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Finding, bad, ok, warn

PART = "settings"
#: what is wrong is left out and the rest read again: a wrong value may hide a contradiction
TRIES_MAX = 5


def readable_config(environ: Mapping[str, str], flags: Mapping[str, str]) -> tuple[Config | None, list[Finding]]:
    """The settings without what is wrong with them, so that the rest can be looked at; and what is wrong."""
    found: list[Finding] = []
    environ, flags = dict(environ), dict(flags)
    for _ in range(TRIES_MAX):
        try:
            return load_config(environ=environ, known_strategies=strategies.names(), flags=flags), found
        except InvalidSettings as error:
            for problem in error.problems:
                found.append(bad(PART, problem.detail, problem.remedy))
                _leave_out(problem.setting, environ, flags)
    return None, found


def _leave_out(setting: str, environ: dict[str, str], flags: dict[str, str]) -> None:
    """Wherever it was said; and with a wrong file the whole file."""
    name = OLD_VARIABLES.get(setting, setting)
    for variable in (setting, BY_NAME[name].variable if name in BY_NAME else "", "VIRTFLOW_CONFIG"):
        environ.pop(variable, None)
    for old, new in OLD_VARIABLES.items():
        if new == name:
            environ.pop(old, None)
    for flag in (setting, "config"):
        flags.pop(flag, None)
    environ["XDG_CONFIG_HOME"] = "/nonexistent"


def check_settings(config: Config) -> Iterator[Finding]:
    given = [name for name, source in config.origins.items() if source != "default"]
    yield ok(PART, f"{len(given)} given, {len(config.origins) - len(given)} as they are by default")
    if config.strategy_file:
        try:
            name = read_strategy(config.strategy_file, strategies.names())
        except InvalidSetting as error:
            yield bad(PART, error.detail, error.remedy)
        else:
            yield ok(PART, f"the strategy file says {name}")
    if config.election == "kubernetes" and not config.is_shared:
        yield warn(
            PART, "election=kubernetes with an embedded database elects nobody", "share a postgresql://… database"
        )
    if config.is_shared and not (config.node_name or config.self_hosts or config.self_label):
        yield warn(
            PART,
            "nothing says which hosts carry virtflow but the names of the machines themselves",
            "set node_name, self_hosts or self_label where names of hosts differ from those: docs/deploy.md",
        )
