"""Every part beside every other, each for so long and no longer; whatever breaks is a finding."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from virtflow.config import Config
from virtflow.events.amqp import exchange_name
from virtflow.main.checkup.broker import check_broker, check_queue
from virtflow.main.checkup.buses import check_kafka, check_nats
from virtflow.main.checkup.database import check_database
from virtflow.main.checkup.election import check_election
from virtflow.main.checkup.inventories import check_inventories
from virtflow.main.checkup.machine import check_machine
from virtflow.main.checkup.processes import check_processes
from virtflow.main.checkup.secrets import check_secrets
from virtflow.main.checkup.server import check_server
from virtflow.main.checkup.settings import check_settings, readable_config
from virtflow.model.finding import Finding, bad

#: the longest that one part may take; all are looked at beside each other
PART_S_MAX = 10.0
#: what a part that waits for the network is given, so that it can say itself what went wrong
WAIT_S = 5.0

Check = Callable[[], Awaitable[Sequence[Finding]]]


async def examine(environ: Mapping[str, str], flags: Mapping[str, str]) -> list[Finding]:
    """Settings first; what is wrong with some hides nothing about the others."""
    config, found = readable_config(environ, flags)
    if config is None:
        return found
    return [*found, *check_settings(config), *await _check_all(_checks(config))]


def _checks(config: Config) -> Mapping[str, Check]:
    """Part -> how it is looked at, in the order in which findings are shown."""
    checks: dict[str, Check] = {
        "machine": lambda: check_machine(config),
        "server": lambda: check_server(config, wait_s=WAIT_S),
        "database": lambda: check_database(config, wait_s=WAIT_S),
        "secrets": lambda: check_secrets(config),
        "election": lambda: check_election(config),
    }
    if config.is_shared:
        checks["processes"] = lambda: check_processes(config)
    if config.broker_url:
        checks["broker"] = lambda: check_queue(config.broker_url, wait_s=WAIT_S)
    if config.events_nats_url:
        checks["nats"] = lambda: check_nats(config.events_nats_url, wait_s=WAIT_S)
    if config.events_kafka_servers:
        checks["kafka"] = lambda: check_kafka(config.events_kafka_servers, wait_s=WAIT_S)
    if config.events_amqp_url:
        exchanges = (exchange_name(config.events_prefix),)
        checks["amqp"] = lambda: check_broker("amqp", config.events_amqp_url, wait_s=WAIT_S, exchanges=exchanges)
    checks["inventories"] = lambda: check_inventories(config)
    return checks


async def _check_all(checks: Mapping[str, Check]) -> list[Finding]:
    found = await asyncio.gather(*(_within(part, check) for part, check in checks.items()))
    return [finding for findings in found for finding in findings]


async def _within(part: str, check: Check) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(PART_S_MAX):
            return await check()
    except TimeoutError:
        return [bad(part, f"it did not answer within {PART_S_MAX:g} s", "see whether it is up and can be reached")]
    except Exception as error:  # the examination goes on: what is broken is what we came for
        what = f"{type(error).__name__}: {error}"
        return [bad(part, f"looking at it failed: {what}", "report this: a part that is broken should be named")]
