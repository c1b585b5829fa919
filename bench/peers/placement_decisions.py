"""OpenStack Placement in this process: allocation candidates, and the claim of the first.

Runs with the Python of .venv-peers and prints JSON. The database is SQLite in memory, so nothing is durable, and there
is no HTTP between: both to Placement's advantage. As Nova asks: at most 1,000 candidates.
"""

import json
import logging
import sys
import time
import uuid
from importlib.metadata import version

logging.disable(logging.INFO)

from oslo_config import cfg  # noqa: E402
from placement import conf, context, db_api, direct  # noqa: E402
from placement.db.sqlalchemy import models  # noqa: E402

SIZES = ((128, 512, 5_000), (192, 768, 7_000), (256, 1024, 9_000))
#: numbers of VCPU, MEMORY_MB and DISK_GB in the database
VCPU, MEMORY_MB, DISK_GB = 0, 1, 2
CANDIDATES = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:2048,DISK_GB:20&limit=1000"
HEADERS = {"OpenStack-API-Version": "placement 1.36"}
DECISIONS_MAX = 100


def configuration():
    made = cfg.ConfigOpts()
    conf.register_opts(made)
    made.set_override("auth_strategy", "noauth2", "api")
    made.set_override("connection", "sqlite://", "placement_database")
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override("sync_on_startup", True, "placement_database")
    return made


@db_api.placement_context_manager.writer
def add_hosts(context, count):
    """Straight into the tables: through the API it would take a minute."""
    providers = [
        {"id": number + 1, "uuid": str(uuid.UUID(int=number + 1)), "name": f"bench-{number + 1:06d}",
         "generation": 0, "root_provider_id": number + 1}
        for number in range(count)
    ]  # fmt: skip
    inventories = [
        {"resource_provider_id": number + 1, "resource_class_id": kind, "total": total, "reserved": 0, "min_unit": 1,
         "max_unit": total, "step_size": 1, "allocation_ratio": 1.0}
        for number in range(count)
        for kind, total in _amounts(number)
    ]  # fmt: skip
    context.session.execute(models.ResourceProvider.__table__.insert(), providers)
    context.session.execute(models.Inventory.__table__.insert(), inventories)


def _amounts(number):
    cores, memory_gib, disk_gib = SIZES[number % len(SIZES)]
    return ((VCPU, cores), (MEMORY_MB, memory_gib * 1024), (DISK_GB, disk_gib))


def place(client):
    """Ask for candidates and claim the first."""
    answer = client.get(CANDIDATES, headers=HEADERS)
    answer.raise_for_status()
    found = answer.json()["allocation_requests"][0]
    claim = {"allocations": found["allocations"], "project_id": "p", "user_id": "u", "consumer_generation": None}
    client.put(f"/allocations/{uuid.uuid4()}", json=claim, headers=HEADERS).raise_for_status()


def main():
    hosts, seconds = int(sys.argv[1]), float(sys.argv[2])
    with direct.PlacementDirect(configuration(), latest_microversion=True) as client:
        client.get("/").raise_for_status()  # the first request makes the tables
        add_hosts(context.RequestContext(config=None), hosts)
        place(client)
        taken = []
        end = time.perf_counter() + seconds
        while len(taken) < DECISIONS_MAX and (time.perf_counter() < end or len(taken) < 3):
            started = time.perf_counter()
            place(client)
            taken.append(time.perf_counter() - started)
    row = {
        "name": f"OpenStack Placement {version('openstack-placement')}, candidates + claim",
        "hosts": hosts,
        "best_us": min(taken) * 1e6,
        "how": f"best of {len(taken)} decisions",
    }
    print(json.dumps([row]))


if __name__ == "__main__":
    main()
