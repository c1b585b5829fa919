"""Settings, read once into one frozen record: defaults, then a TOML file, the environment, the command line.

`SETTINGS` is the one table: the record, the messages, `config show`, the flags and docs/settings.md all follow it.
"""

import difflib
import ipaddress
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from virtflow.inventory import UsageMode
from virtflow.model.errors import FieldProblem, InvalidSetting
from virtflow.model.kafka import SERVERS_RULE, read_servers
from virtflow.model.limits import ACCEPT_QUEUE_MAX, BODY_BYTES_MAX, IDEMPOTENCY_KEEP_S, RETRIES_MAX
from virtflow.model.names import is_name
from virtflow.model.secret import Secret, without_secrets
from virtflow.model.servers import each_server

PREFIX = "VIRTFLOW_"
#: The name that earlier systems gave to the strategy.
STRATEGY_VARIABLE = "SCHEDULING_STRATEGY"
CONFIG_VARIABLE = "VIRTFLOW_CONFIG"
#: Names that earlier systems gave to settings, understood as long as ours are not given.
OLD_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        STRATEGY_VARIABLE: "strategy",
        "POSTGRES_CONN": "database_url",
        "RABBITMQ_URL": "broker_url",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "otel_endpoint",
    }
)
#: Read by the client and the command line tool, not by the service.
CLIENT_VARIABLES = ("VIRTFLOW_SERVER", "VIRTFLOW_OUTPUT", "VIRTFLOW_TIMEOUT_S", "VIRTFLOW_CA_FILE")

CONFIG_BYTES_MAX = 2**20
SIMULATED_HOSTS_MAX = 200_000

DATABASE_FILE = "virtflow.db"
#: Ours alone: the database knows who may do what.
DATA_FOLDER_MODE = 0o700

#: what follows is the path: three slashes and a relative one, four slashes for an absolute one
IN_MEMORY = "sqlite://"
#: Kubernetes gives every container such variables for a service named `virtflow…`; they are not meant for us.
_OF_KUBERNETES = re.compile(
    r"VIRTFLOW_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)"
)
_KUBERNETES_PORT = re.compile(r"(?:tcp|udp|sctp)://.*")


#: What a process may do for the others.
ROLES = ("api", "scheduler", "relay")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, checked. Parts of the program are given the values they need, never the record."""

    host: str
    port: int
    token: Secret
    role: frozenset[str]
    database_url: Secret
    broker_url: Secret
    broker_timeout_s: float
    broker_prefetch: int
    election: str
    lease_s: float
    kubernetes_lease: str
    kubernetes_url: str
    kubernetes_account: Path
    node_name: str
    self_hosts: frozenset[str]
    self_label: str
    events_nats_url: Secret
    events_kafka_servers: Secret
    events_amqp_url: Secret
    events_plugin: str
    events_prefix: str
    secrets_key_file: Path | None
    webhook_allow: tuple[Network, ...]
    webhook_disable_after_s: int
    otel_endpoint: str
    otel_share: float
    inventory_url: Secret
    inventory_token: Secret
    inventory_file: Path | None
    inventory_plugin: str
    inventory_poll_s: float
    inventory_timeout_s: float
    inventory_usage: UsageMode
    simulate: int
    strategy: str
    strategy_file: Path | None
    strategy_weights: Mapping[str, float]
    retries_max: int
    retry_wait_s: float
    tick_s: float
    events_keep: int
    events_keep_max: int
    idempotency_keep_s: int
    drain_s: float
    dead_keep_s: int
    body_bytes_max: int
    accept_queue_max: int
    log_level: str
    log_format: str
    #: setting -> where its value came from, in words
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Other processes may use the database at the same time."""
        return self.database_url.reveal().startswith("postgres")

    @property
    def sqlite_path(self) -> Path | None:
        """The database file, or None when the database is a server or lives in memory."""
        file = self.database_url.reveal().removeprefix(f"{IN_MEMORY}/")
        return Path(unquote(file)) if file.startswith("/") else None


class InvalidSettings(InvalidSetting):
    """Everything that is wrong with the settings, at once: nobody should have to start three times to learn it."""

    def __init__(self, problems: Sequence[InvalidSetting]) -> None:
        first = problems[0]
        super().__init__(first.setting, first.value, expected="")
        lines = [f"{problem.detail}; {problem.remedy}" for problem in problems]
        self.detail = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} settings are wrong:", *lines])
        self.args = (self.detail,)
        self.remedy = "docs/settings.md lists every setting"
        self.fields = tuple(FieldProblem(each.setting, each.detail, each.remedy) for each in problems)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be: in words, and as a function from text that raises ValueError."""

    expected: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. Its name is also the key in the file, and gives the variable and the flag."""

    name: str
    kind: Kind
    #: as somebody would type it
    default: str
    meaning: str
    #: a secret has no flag: other users of the machine can read command lines
    is_secret: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "" if self.is_secret else "--" + self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it was given, and where."""

    text: str
    source: str


# What values may be.


def _require(claim: bool) -> None:
    if not claim:
        raise ValueError


def _whole(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        number = int(text)
        _require(low <= number <= high)
        return number

    return Kind(f"a whole number from {low} to {high}", parse)


def _decimal(low: float, high: float) -> Kind:
    def parse(text: str) -> float:
        number = float(text)
        _require(math.isfinite(number) and low <= number <= high)
        return number

    return Kind(f"a number from {low:g} to {high:g}", parse)


def _choice(*words: str) -> Kind:
    def parse(text: str) -> str:
        _require(text.lower() in words)
        return text.lower()

    return Kind(f"one of {', '.join(words)}", parse)


def _usage(text: str) -> UsageMode:
    return UsageMode(text.lower())


def _address(text: str) -> str:
    _require(re.fullmatch(r"[A-Za-z0-9.:_%-]+", text) is not None)
    return text


def _secret(text: str) -> Secret:
    # it travels in a header
    _require(all("!" <= character <= "~" for character in text))
    return Secret(text)


def _url_of(*schemes: str) -> Callable[[str], Secret]:
    def parse(text: str) -> Secret:
        if not text:
            return Secret("")
        parts = urlsplit(text)
        _require(parts.scheme in schemes and bool(parts.hostname) and text.isprintable() and " " not in text)
        _require(parts.port is None or parts.port > 0)
        return Secret(text, shown=without_secrets(text))

    return parse


def _database(text: str) -> Secret:
    """Normal form: a file by its absolute path, so that it is the same one wherever the program was started."""
    if text.startswith(("postgresql://", "postgres://")):
        each_server(text)
        _require(bool(urlsplit(text).path.strip("/")))
        return Secret(text, shown=without_secrets(text))
    if text == IN_MEMORY:
        return Secret(text, shown=text)
    url = sqlite_url(Path(_sqlite_file(text)))
    return Secret(url, shown=url)


def _sqlite_file(text: str) -> str:
    """The path in sqlite:///relative or sqlite:////absolute, or what was given as a path."""
    path = text
    if text.startswith("sqlite:"):
        _require(text.startswith(IN_MEMORY + "/") and "?" not in text)
        path = unquote(text.removeprefix(IN_MEMORY + "/"))
    _require("://" not in path and path.strip("/") != "" and not path.endswith("/") and path.isprintable())
    return path


def sqlite_url(file: Path) -> str:
    """Three slashes and an absolute path: four slashes in all."""
    return f"{IN_MEMORY}/{quote(str(file.expanduser().absolute()))}"


def _file(text: str) -> Path | None:
    _require(text.isprintable())
    return Path(text).expanduser().absolute() if text else None


def _plugin(text: str) -> str:
    name, equals, location = text.partition("=")
    _require(not text or bool(name and equals and location))
    return text


def _roles(text: str) -> frozenset[str]:
    words = frozenset(text.lower().replace(" ", "").split(","))
    if words == {"all"}:
        return frozenset(ROLES)
    _require(words <= set(ROLES))
    return words


def _name(text: str) -> str:
    _require(is_name(text))
    return text


def _names(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    _require(all(map(is_name, names)))
    return names


def _label(text: str) -> str:
    key, _, value = text.partition("=")
    _require(not text or bool(key and value and text.isprintable()))
    return text


def _printable(text: str) -> str:
    _require(text.isprintable() and " " not in text)
    return text


def _servers(text: str) -> Secret:
    if not text:
        return Secret("")
    _require(text.isprintable() and " " not in text)
    read_servers(text)
    return Secret(text, shown=without_secrets(text))


def _lease_object(text: str) -> str:
    namespace, _, name = text.rpartition("/")
    _require(is_name(name) and (not namespace or is_name(namespace)))
    return text


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


def _strategy(text: str) -> str:
    _require(bool(text))
    return text


def _weights(text: str) -> Mapping[str, float]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    weights = {name.strip(): float(number) for name, _, number in pairs}
    _require(len(weights) == len(pairs) and all(map(is_name, weights)))
    _require(all(math.isfinite(weight) and weight >= 0 for weight in weights.values()))
    _require(not weights or sum(weights.values()) > 0)
    return MappingProxyType(weights)


_URL = Kind("a URL that begins with http:// or https:// and names a host", _url_of("http", "https"))
_PLAIN_URL = Kind("a URL that begins with http:// or https://", lambda text: _url_of("http", "https")(text).reveal())
_SECRET = Kind("visible ASCII characters without spaces", _secret)

SETTINGS: tuple[Setting, ...] = (
    Setting("host", Kind("an address or a host name", _address), "127.0.0.1", "The address to listen on."),
    Setting("port", _whole(0, 65535), "8080", "The port to listen on; 0 takes any free one."),
    Setting(
        "token",
        _SECRET,
        "",
        "What clients must present (`Authorization: Bearer …`). Any address but loopback needs one.",
        is_secret=True,
    ),
    Setting(
        "role",
        Kind(f"all, or some of {', '.join(ROLES)} with commas between", _roles),
        "all",
        "What this process does. Several processes share the work on one PostgreSQL database.",
    ),
    Setting(
        "database_url",
        Kind("sqlite:///relative/path, sqlite:////absolute/path, a path, or postgresql://…", _database),
        "sqlite:///$XDG_DATA_HOME/virtflow/virtflow.db",
        "Where everything is kept. Without $XDG_DATA_HOME it is ~/.local/share.",
    ),
    Setting(
        "broker_url",
        Kind("amqp://… or amqps://…", _url_of("amqp", "amqps")),
        "",
        "A RabbitMQ that carries knocks between processes. Without one the database does.",
    ),
    Setting(
        "broker_timeout_s",
        _decimal(0.1, 60),
        "5",
        "Seconds until a broker that does not answer is let go; requests never wait for it.",
    ),
    Setting(
        "broker_prefetch",
        _whole(1, 1000),
        "16",
        "Messages that the broker hands to the leader before one of them is acknowledged.",
    ),
    Setting(
        "election",
        _choice("database", "kubernetes"),
        "database",
        "Who counts the votes when several processes could schedule.",
    ),
    Setting("lease_s", _decimal(0.5, 300), "2", "Seconds after which a leader that is not heard of is replaced."),
    Setting(
        "kubernetes_lease",
        Kind("a name, or <namespace>/<name>", _lease_object),
        "virtflow-scheduler",
        "The Lease object of `election = kubernetes`, by default in the pod's own namespace.",
    ),
    Setting(
        "kubernetes_url",
        _PLAIN_URL,
        "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
        "The Kubernetes API of `election = kubernetes`; plain http:// on loopback alone, as with `kubectl proxy`.",
    ),
    Setting(
        "kubernetes_account",
        Kind("the path of a folder", _file),
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "The folder of the service account: its files `token`, `ca.crt` and `namespace`.",
    ),
    Setting(
        "node_name",
        Kind("names and addresses of one machine with commas between, or none", _printable),
        "",
        "The machine this process runs on: a host of that name or address gets no VMs. Empty: the machine's own name.",
    ),
    Setting(
        "self_hosts",
        Kind("names of hosts with commas between", _names),
        "",
        "Hosts that carry virtflow itself and get no VMs.",
    ),
    Setting(
        "self_label",
        Kind("<label>=<value>", _label),
        "",
        "Hosts with this label carry virtflow itself and get no VMs.",
    ),
    Setting(
        "events_nats_url",
        Kind("nats://… or tls://…", _url_of("nats", "tls")),
        "",
        "A NATS with JetStream that is told all events.",
    ),
    Setting(
        "events_kafka_servers",
        Kind(SERVERS_RULE, _servers),
        "",
        "Kafka brokers that are told all events.",
    ),
    Setting(
        "events_amqp_url",
        Kind("amqp://… or amqps://…", _url_of("amqp", "amqps")),
        "",
        "A RabbitMQ that is told all events, by a topic exchange.",
    ),
    Setting(
        "events_plugin",
        Kind("<entry point>=<location>", _plugin),
        "",
        "A bus of another package (entry point group `virtflow.sinks`) that is told all events.",
    ),
    Setting(
        "events_prefix",
        Kind("a name", _name),
        "virtflow",
        "How the subjects, the topic and the exchange of those events begin.",
    ),
    Setting(
        "secrets_key_file",
        Kind("the path of a file", _file),
        "",
        "Keys that seal secrets of webhooks and callbacks in the database: one per line, the first seals, all open.",
    ),
    Setting(
        "webhook_allow",
        Kind("networks such as 10.0.0.0/8 with commas between", _networks),
        "",
        "Networks that webhooks may go to although they are not public: loopback, private, link-local.",
    ),
    Setting(
        "webhook_disable_after_s",
        _whole(60, 366 * 86_400),
        "259200",
        "A webhook that has failed for so many seconds is disabled.",
    ),
    Setting(
        "otel_endpoint",
        _PLAIN_URL,
        "",
        "Where traces go, by OTLP over HTTP. Also read from `OTEL_EXPORTER_OTLP_ENDPOINT`.",
    ),
    Setting(
        "otel_share",
        _decimal(0, 1),
        "1",
        "The share of orders that are traced when their `traceparent` does not say it. With `otel_endpoint` only.",
    ),
    Setting("inventory_url", _URL, "", "A node API that says which hosts there are."),
    Setting(
        "inventory_token",
        _SECRET,
        "",
        "What the node API wants to see (`Authorization: Bearer …`).",
        is_secret=True,
    ),
    Setting(
        "inventory_file",
        Kind("the path of a YAML, JSON or TOML file", _file),
        "",
        "A file that says which hosts there are; watched for changes.",
    ),
    Setting(
        "inventory_plugin",
        Kind("<entry point>=<location>", _plugin),
        "",
        "An inventory of another package (entry point group `virtflow.inventories`), instead of `inventory_url`.",
    ),
    Setting("inventory_poll_s", _decimal(0.1, 86_400), "10", "Seconds from one look at the inventory to the next."),
    Setting(
        "inventory_timeout_s", _decimal(0.1, 300), "5", "Seconds until an inventory that does not answer is let go."
    ),
    Setting(
        "inventory_usage",
        Kind(f"one of {', '.join(UsageMode)}", _usage),
        UsageMode.FOREIGN.value,
        "What the use means that an inventory reports: use by others; the total, ours included; or nothing.",
    ),
    Setting(
        "simulate", _whole(0, SIMULATED_HOSTS_MAX), "0", "That many simulated hosts, for trying things out; 0 = none."
    ),
    Setting(
        "strategy",
        Kind("the name of a strategy", _strategy),
        "least_loaded",
        f"How hosts are chosen where neither request nor pool say it. Also read from `{STRATEGY_VARIABLE}`.",
    ),
    Setting(
        "strategy_file",
        Kind("the path of a file, or of a folder with a file SCHEDULING_STRATEGY", _file),
        "",
        "Where the strategy is read from instead, now and whenever it changes: a mounted ConfigMap.",
    ),
    Setting(
        "strategy_weights",
        Kind("weights from 0 by dimension, such as cpu=0.7,memory=0.3", _weights),
        "",
        "The weights of the strategy `hybrid`.",
    ),
    Setting("retries_max", _whole(0, 1000), str(RETRIES_MAX), "How often a request that asked to fail is tried again."),
    Setting(
        "retry_wait_s", _decimal(0, 3600), "3", "Seconds until the first retry; the second waits twice that, and so on."
    ),
    Setting("tick_s", _decimal(0.1, 3600), "5", "Seconds after which the scheduler looks even if nothing knocked."),
    Setting("events_keep", _whole(1000, 10**12), "1000000", "How many events are kept; older ones are forgotten."),
    Setting(
        "events_keep_max",
        _whole(1000, 10**12),
        "10000000",
        "How many events are kept while a bus or a webhook has not been told of them; never fewer than `events_keep`.",
    ),
    Setting(
        "idempotency_keep_s",
        _whole(60, 366 * 86_400),
        str(IDEMPOTENCY_KEEP_S),
        "Seconds for which answers to an Idempotency-Key are kept.",
    ),
    Setting(
        "drain_s",
        _decimal(0, 5),
        "1",
        "Seconds for which a process that was told to stop still answers, so that clients go elsewhere without a loss.",
    ),
    Setting("dead_keep_s", _whole(60, 10 * 366 * 86_400), "2592000", "Seconds for which dead letters are kept."),
    Setting("body_bytes_max", _whole(1024, 2**30), str(BODY_BYTES_MAX), "The largest request body, in bytes."),
    Setting(
        "accept_queue_max",
        _whole(1, 10_000_000),
        str(ACCEPT_QUEUE_MAX),
        "Requests taken in but not yet written down; more are answered with 429.",
    ),
    Setting(
        "log_level", _choice("debug", "info", "warning", "error"), "info", "The least important line that is logged."
    ),
    Setting("log_format", _choice("text", "json"), "text", "How a log line looks."),
)
BY_NAME: Mapping[str, Setting] = MappingProxyType({setting.name: setting for setting in SETTINGS})


# Reading.


def load_config(
    *, environ: Mapping[str, str], known_strategies: Sequence[str], flags: Mapping[str, str] | None = None
) -> Config:
    """Every setting from its strongest source, or `InvalidSettings` naming all that is wrong.

    `flags` maps names of settings (and `config`, the file) to texts; what is not in it was not given.
    """
    problems: list[InvalidSetting] = []
    layers = (
        _defaults(environ),
        _from_file(_config_file(flags or {}, environ), problems),
        _from_environment(environ, problems),
        _from_flags(flags or {}, problems),
    )
    given = {name: value for layer in layers for name, value in layer.items()}
    values = _parse_all(given, problems)
    problems += _contradictions(values, given, known_strategies)
    if problems:
        raise InvalidSettings(problems)
    return Config(**values, origins=MappingProxyType({name: value.source for name, value in given.items()}))


def _defaults(environ: Mapping[str, str]) -> dict[str, Given]:
    texts = {setting.name: setting.default for setting in SETTINGS}
    texts["kubernetes_url"] = _kubernetes_url(environ)
    texts["database_url"] = str(_folder(environ, "XDG_DATA_HOME", ".local/share") / "virtflow" / DATABASE_FILE)
    return {name: Given(text, "default") for name, text in texts.items()}


def _kubernetes_url(environ: Mapping[str, str]) -> str:
    """As every pod is told it; nowhere else is there one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" if host else ""


def _folder(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    named = environ.get(variable, "")
    # the XDG rules: a relative path is as good as none
    return Path(named) if named.startswith("/") else Path(environ.get("HOME") or "/") / otherwise


def _config_file(flags: Mapping[str, str], environ: Mapping[str, str]) -> Given | None:
    if flags.get("config"):
        return Given(flags["config"], "flag --config")
    if environ.get(CONFIG_VARIABLE):
        return Given(environ[CONFIG_VARIABLE], f"environment {CONFIG_VARIABLE}")
    usual = _folder(environ, "XDG_CONFIG_HOME", ".config") / "virtflow" / "config.toml"
    return Given(str(usual), "default") if usual.is_file() else None


def _from_file(file: Given | None, problems: list[InvalidSetting]) -> dict[str, Given]:
    if file is None:
        return {}
    try:
        content = _read_toml(Path(file.text).expanduser())
    except (OSError, ValueError) as error:
        problems.append(InvalidSetting("config", file.text, expected=f"a TOML file ({error})", source=file.source))
        return {}
    source = f"file {file.text}"
    unknown = [name for name in content if name not in BY_NAME]
    problems += [_unknown(name, source, BY_NAME) for name in unknown]
    return {name: Given(_as_text(value), source) for name, value in content.items() if name in BY_NAME}


def _read_toml(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        content = file.read(CONFIG_BYTES_MAX + 1)
    if len(content) > CONFIG_BYTES_MAX:
        raise ValueError(f"at most {CONFIG_BYTES_MAX} bytes")
    return tomllib.loads(content.decode())


def _as_text(value: object) -> str:
    """A value of the file as somebody would type it elsewhere, so that there is one way to read each setting."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}={_as_text(amount)}" for name, amount in value.items())
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    return str(value)


def _from_environment(environ: Mapping[str, str], problems: list[InvalidSetting]) -> dict[str, Given]:
    # an empty variable is one that was not given: `VIRTFLOW_TOKEN=${TOKEN:-}` is everybody's habit
    ours = {
        name: text for name, text in environ.items() if name.startswith(PREFIX) and text and not _is_foreign(name, text)
    }
    by_variable = {setting.variable: setting for setting in SETTINGS}
    expected = {*by_variable, *CLIENT_VARIABLES, CONFIG_VARIABLE}
    problems += [_unknown(name, "environment", expected) for name in sorted(ours) if name not in expected]
    given = {
        by_variable[name].name: Given(text, f"environment {name}") for name, text in ours.items() if name in by_variable
    }
    return {**given, **_by_old_names(environ, given, problems)}


def _is_foreign(name: str, text: str) -> bool:
    of_service_port = name.endswith("_PORT") and _KUBERNETES_PORT.fullmatch(text) is not None
    return of_service_port or _OF_KUBERNETES.fullmatch(name) is not None


def _by_old_names(
    environ: Mapping[str, str], ours: Mapping[str, Given], problems: list[InvalidSetting]
) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for variable, name in OLD_VARIABLES.items():
        text = environ.get(variable, "")
        known = ours.get(name)
        if text and known is None:
            found[name] = Given(text, f"environment {variable}")
        elif text and known is not None and text != known.text:
            setting = BY_NAME[name]
            shown = without_secrets(text)
            expected = f"the same as {setting.variable}={without_secrets(known.text)!r}"
            problems.append(InvalidSetting(variable, shown, expected=expected, source="environment"))
    return found


def _from_flags(flags: Mapping[str, str], problems: list[InvalidSetting]) -> dict[str, Given]:
    given = {name: text for name, text in flags.items() if name != "config"}
    known = {setting.name for setting in SETTINGS if setting.flag}
    problems += [_not_a_flag(name, known) for name in given if name not in known]
    return {name: Given(text, f"flag {BY_NAME[name].flag}") for name, text in given.items() if name in known}


def _not_a_flag(name: str, known: Iterable[str]) -> InvalidSetting:
    if name not in BY_NAME:
        return _unknown(name, "command line", known)
    return InvalidSetting(
        name,
        "…",
        expected=f"{BY_NAME[name].variable} in the environment; every user of the machine can read a command line",
        source="command line",
    )


def _unknown(name: str, source: str, known: Iterable[str]) -> InvalidSetting:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    # its value may be a misspelt setting's secret
    return InvalidSetting(name, "…", expected=f"a setting that exists{hint}", source=source)


def _parse_all(given: Mapping[str, Given], problems: list[InvalidSetting]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text = given[setting.name].text
        try:
            values[setting.name] = setting.kind.parse(text)
        except ValueError:
            problems.append(_wrong(setting.name, given, expected=setting.kind.expected))
    return values


def _wrong(name: str, given: Mapping[str, Given], *, expected: str) -> InvalidSetting:
    text = given[name].text
    shown = ("***" if text else "") if BY_NAME[name].is_secret else without_secrets(text)
    return InvalidSetting(name, shown, expected=expected, source=given[name].source)


def _contradictions(
    values: Mapping[str, Any], given: Mapping[str, Given], known_strategies: Sequence[str]
) -> Iterator[InvalidSetting]:
    """What is wrong with values that are fine one by one. A value that could not be read is not judged again."""
    strategy = values.get("strategy")
    if strategy is not None and strategy not in known_strategies:
        near = difflib.get_close_matches(strategy, known_strategies, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        yield _wrong("strategy", given, expected=f"one of {', '.join(known_strategies)}{hint}")
    if "host" in values and not is_loopback(values["host"]) and values.get("token") == Secret(""):
        yield _wrong("host", given, expected="127.0.0.1, or any address together with a token in VIRTFLOW_TOKEN")
    if values.get("simulate") and any(
        values.get(name) for name in ("inventory_url", "inventory_file", "inventory_plugin")
    ):
        yield _wrong("simulate", given, expected="0 where there is an inventory: simulated and real hosts never mix")
    if values.get("role") is not None and values["role"] != set(ROLES) and _is_embedded(values):
        yield _wrong("role", given, expected="all with an embedded database; other roles share a postgresql://…")
    yield from _kubernetes_problems(values, given)
    if values.get("inventory_plugin") and values.get("inventory_url"):
        yield _wrong("inventory_plugin", given, expected="to stand alone, without inventory_url")


def _kubernetes_problems(values: Mapping[str, Any], given: Mapping[str, Given]) -> Iterator[InvalidSetting]:
    url = values.get("kubernetes_url")
    if values.get("election") == "kubernetes" and url == "":
        yield _wrong("election", given, expected="database outside of a cluster, or kubernetes with kubernetes_url")
    if url and url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        yield _wrong("kubernetes_url", given, expected="https://…, for the token of the service account goes there")
    if "kubernetes_account" in values and values["kubernetes_account"] is None:
        yield _wrong("kubernetes_account", given, expected="the path of a folder")


def _is_embedded(values: Mapping[str, Any]) -> bool:
    return "database_url" in values and not values["database_url"].reveal().startswith("postgres")


def is_loopback(host: str) -> bool:
    """Can only this machine connect there? A name other than localhost may resolve to anything."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


# Showing, and the rest of the world.


def show_config(config: Config) -> list[tuple[str, str, str]]:
    """(setting, value, where it came from) in the order of the table. Secrets are masked."""
    return [(each.name, _in_words(getattr(config, each.name)), config.origins.get(each.name, "")) for each in SETTINGS]


def _in_words(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={weight:g}" for name, weight in value.items())
    if isinstance(value, frozenset | tuple):
        return ",".join(sorted(map(str, value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def make_data_folder(config: Config) -> None:
    """Make the folder of the database file when it is missing, for nobody's eyes but ours."""
    if config.sqlite_path:
        config.sqlite_path.parent.mkdir(mode=DATA_FOLDER_MODE, parents=True, exist_ok=True)
