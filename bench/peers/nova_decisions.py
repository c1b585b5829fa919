"""OpenStack Nova's filter scheduler, driven in this process without its services.

Runs with the Python of .venv-peers and prints JSON. Asked is `_get_sorted_hosts` with the hosts' states in memory, then
the chosen host's `consume_from_request`: filters, weighers, choice. Left out, to Nova's advantage: the query to
Placement, reading the states from its database, the claim, and every message between its services.
"""

import json
import logging
import sys
import time
import uuid
from importlib.metadata import version

logging.disable(logging.INFO)  # as a service at the level WARNING would

from nova import conf, context, objects  # noqa: E402
from nova.scheduler import host_manager, manager  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

VMS_PER_HOST = 10
SIZES = ((128, 512, 5_000), (192, 768, 7_000), (256, 1024, 9_000))
#: what a plain installation might keep: free memory, free cores, free disk
THREE_WEIGHERS = (
    "nova.scheduler.weights.ram.RAMWeigher",
    "nova.scheduler.weights.cpu.CPUWeigher",
    "nova.scheduler.weights.disk.DiskWeigher",
)
DECISIONS_MAX = 200


class HostManager(host_manager.HostManager):
    """Without a database behind it."""

    def refresh_cells_caches(self):
        pass

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass


def scheduler():
    """The service's object without its connections."""
    made = manager.SchedulerManager.__new__(manager.SchedulerManager)
    made.host_manager = HostManager()
    return made


def host_states(count):
    return [_host_state(number) for number in range(count)]


def _host_state(number):
    cores, memory_gib, disk_gib = SIZES[number % len(SIZES)]
    name, cell = f"bench-{number + 1:06d}", str(uuid.UUID(int=1))
    used = number % VMS_PER_HOST
    compute = objects.ComputeNode(
        context=context.get_admin_context(), uuid=str(uuid.UUID(int=number + 2)), host=name, hypervisor_hostname=name,
        memory_mb=memory_gib * 1024, memory_mb_used=used * 2048, free_ram_mb=memory_gib * 1024 - used * 2048,
        vcpus=cores, vcpus_used=used, local_gb=disk_gib, local_gb_used=used * 20, free_disk_gb=disk_gib - used * 20,
        disk_available_least=disk_gib - used * 20, hypervisor_type="QEMU", hypervisor_version=8002002, cpu_info="{}",
        host_ip="10.0.0.1", numa_topology=None, stats={"num_instances": str(used)}, metrics="[]",
        supported_hv_specs=[], pci_device_pools=None, updated_at=timeutils.utcnow(), cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
    )  # fmt: skip
    state = host_manager.HostState(name, name, cell)
    now = timeutils.utcnow()
    service = {
        "disabled": False, "disabled_reason": None, "host": name, "binary": "nova-compute", "topic": "compute",
        "last_seen_up": now, "updated_at": now, "created_at": now, "forced_down": False, "report_count": 1,
    }  # fmt: skip
    state.update(compute=compute, service=service, aggregates=[], inst_dict={})
    state.allocation_candidates = [{"allocations": {}, "mappings": {}}]
    return state


def request():
    flavor = objects.Flavor(id=1, name="m", flavorid="m", memory_mb=2048, vcpus=1, root_gb=20, ephemeral_gb=0, swap=0)
    flavor.extra_specs = {}
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    return objects.RequestSpec(
        context=context.get_admin_context(), flavor=flavor, image=image, num_instances=1, project_id="p", user_id="u",
        instance_uuid=str(uuid.uuid4()), availability_zone=None, instance_group=None, ignore_hosts=None,
        force_hosts=None, force_nodes=None, requested_destination=None, retry=None, scheduler_hints={},
        limits=objects.SchedulerLimits(), numa_topology=None, pci_requests=objects.InstancePCIRequests(requests=[]),
        security_groups=objects.SecurityGroupList(objects=[]), requested_resources=[], is_bfv=False,
        requested_networks=objects.NetworkRequestList(objects=[]), request_level_params=objects.RequestLevelParams(),
    )  # fmt: skip


def measure(name, hosts, seconds):
    asked, states = scheduler(), host_states(hosts)
    taken = []
    end = time.perf_counter() + seconds
    while len(taken) < DECISIONS_MAX and (time.perf_counter() < end or len(taken) < 3):
        for state in states:  # as fresh as the heartbeats of a living fleet
            state.service = dict(state.service, last_seen_up=timeutils.utcnow(), updated_at=timeutils.utcnow())
        wanted = request()
        started = time.perf_counter()
        chosen = asked._get_sorted_hosts(wanted, states, 0)[0]
        chosen.consume_from_request(wanted)
        taken.append(time.perf_counter() - started)
    return {
        "name": name,
        "hosts": hosts,
        "best_us": min(taken) * 1e6,
        "how": f"best of {len(taken)} decisions",
        "filters": [type(each).__name__ for each in asked.host_manager.enabled_filters],
        "weighers": [type(each).__name__ for each in asked.host_manager.weighers],
    }


def main():
    hosts, seconds = int(sys.argv[1]), float(sys.argv[2])
    conf.CONF([], project="nova", default_config_files=[])
    objects.register_all()
    nova = f"Nova {version('nova')}"
    rows = [measure(f"{nova}, defaults", hosts, seconds)]
    conf.CONF.set_override("weight_classes", list(THREE_WEIGHERS), "filter_scheduler")
    rows.append(measure(f"{nova}, three weighers", hosts, seconds))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
