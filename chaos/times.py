"""Times in rows: nobody's wrong clock is believed."""

from chaos.evidence import Evidence, Finding, of
from chaos.world import World

#: clocks of one machine, read a while before what they are written with
SLACK_MS = 2_000
_STRANGE = """
    WITH present AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2 AS ms)
    SELECT encode(id, 'hex') AS id, state, accepted_ms, next_try_ms, deadline_ms, ended_ms FROM task, present
    WHERE accepted_ms < $1 OR accepted_ms > present.ms OR ended_ms < $1 OR ended_ms > present.ms
        OR ended_ms < accepted_ms - $2
        OR (state = 3 AND code = 'deadline_exceeded' AND ended_ms < deadline_ms - $2)
    ORDER BY accepted_ms
"""


async def look(world: World) -> Evidence:
    """Of tasks: accepted and ended while the world stood, by the clock of the database, and none given up too early."""
    rows = await world.rows(_STRANGE, world.began_ms - SLACK_MS, SLACK_MS)
    return of({}, Finding("times", len(rows), f"{dict(rows[0])} began after {world.began_ms}" if rows else ""))
