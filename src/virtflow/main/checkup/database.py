"""Is the database there, and fit for us?"""

from collections.abc import Sequence

from virtflow.config import Config
from virtflow.main.checkup.beside import beside
from virtflow.model.finding import Finding
from virtflow.store.checkup import check_postgresql, check_sqlite


async def check_database(config: Config, *, wait_s: float) -> Sequence[Finding]:
    url = config.database_url.reveal()
    if config.is_shared:
        return await check_postgresql(url, wait_s=wait_s)
    return await beside(lambda: list(check_sqlite(url)))
