"""`virtflow serve`."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from virtflow import __version__
from virtflow.config import Config, is_loopback, make_data_folder
from virtflow.engine.decide import is_worth_compiling, warm_up
from virtflow.main.doors.door import config_from, guarded
from virtflow.main.doors.light import settle_down
from virtflow.main.leave import ANSWER_S_MAX, Departure, departure
from virtflow.main.logs import set_up_logging
from virtflow.main.parts import make_store, reachable
from virtflow.main.service import SCHEDULER, Service, build
from virtflow.model.secret import without_secrets
from virtflow.store.contract import Store

log = structlog.get_logger("virtflow")

T = TypeVar("T")
App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]

#: on loopback only these names are answered to, so that no web page reaches us through a name of its own
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})

#: the GIL changes hands this often, so that the commit's thread is not kept waiting by the loop
SWITCH_INTERVAL_S = 0.0005
#: a batch makes tens of thousands of records that live for one commit; with the defaults a fifth of the time went here
GC_THRESHOLDS = (100_000, 20, 50)
#: so often it is looked whether large rounds came: to compile takes a second of a core and 60 MB
WORTH_IT_LOOK_S = 0.5


def _as_it_is(thing: T) -> T:
    return thing


def serve(
    argv: Sequence[str],
    *,
    wrap_store: Callable[[Store], Store] = _as_it_is,
    wrap_app: Callable[[App], App] = _as_it_is,
) -> int:
    """`virtflow serve`. Tests wrap the store and the app to make them fail."""
    return guarded(lambda: _serve(config_from(argv), wrap_store, wrap_app))


def _serve(config: Config, wrap_store: Callable[[Store], Store], wrap_app: Callable[[App], App]) -> int:
    set_up_logging(config)
    make_data_folder(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    import uvloop

    return uvloop.run(_serve_until_told(config, wrap_store, wrap_app))


async def _serve_until_told(
    config: Config, wrap_store: Callable[[Store], Store], wrap_app: Callable[[App], App]
) -> int:
    service = build(config, store=wrap_store(make_store(config)))
    with departure() as leave:
        await _serve_with(service, leave, wrap_app)
    return 0


async def _serve_with(service: Service, leave: Departure, wrap_app: Callable[[App], App]) -> None:
    from virtflow.api.app import create_app  # other doors start without it
    from virtflow.api.server import Patience, run_server
    from virtflow.api.settings import ApiSettings

    config = service.config
    async with service.running() as house:

        def leaving() -> None:
            leave.begin()
            house.health.leaving.set()

        settle_down()
        gc.set_threshold(*GC_THRESHOLDS)  # not as often as in a small script
        settings = ApiSettings(
            version=__version__,
            token=config.token if config.token.reveal() else None,
            allowed_hosts=_LOOPBACK_NAMES if is_loopback(config.host) else frozenset(),
            body_bytes_max=config.body_bytes_max,
            database=without_secrets(config.database_url.reveal()),
            roles=config.role,
        )
        app = wrap_app(create_app(house, settings=settings))
        drain_s = config.drain_s if config.is_shared else 0.0  # there is nobody else to go to
        patience = Patience(drain_s=drain_s, stop_s_max=ANSWER_S_MAX - drain_s)

        async def ready(address: str) -> None:
            service.listens_at(reachable(address))
            log.info("serving", address=address, docs=f"{address}/docs")

        compiling = asyncio.create_task(_compile_when_worth_it()) if SCHEDULER in config.role else None
        try:
            await run_server(app, host=config.host, port=config.port, ready=ready, leaving=leaving, patience=patience)
        finally:
            if compiling is not None:
                compiling.cancel()


async def _compile_when_worth_it() -> None:
    """Where the extra `fast` is installed: beside the work, and only for who places many at once."""
    while True:
        await asyncio.sleep(WORTH_IT_LOOK_S)
        if is_worth_compiling():
            break
    await asyncio.get_running_loop().run_in_executor(None, warm_up)
