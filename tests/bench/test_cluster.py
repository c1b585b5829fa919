"""The benchmark of several processes: who gets the load, what is compared with what, and that it runs."""

import json
import tempfile
from pathlib import Path

import pytest
from bench.cluster import Line, Measured, figures_of, main, measure
from bench.http import Plan
from bench.load import Outcome
from bench.machine import Fsync, work_folders

TINY = Plan(hosts=50, singles_s=0.2, warm_up_s=0.1, batch_vms=2_000, batch_s_max=5.0)


def measured(*, apis: int, broker: bool = False, kind: str = "vm", vms_per_s: float) -> Measured:
    return Measured(
        line=Line(apis=apis, broker=broker),
        kind=kind,
        outcome=Outcome(vms_per_s=vms_per_s, p50_ms=1.0, p99_ms=2.0),
        placed_per_s=vms_per_s / 2,
        fsync=Fsync(0.5, 1.0, 10),
        server_us_per_vm=100.0,
    )


def test_everything_is_compared_with_one_process_of_the_same_run():
    found = [
        measured(apis=1, vms_per_s=4_000),
        measured(apis=2, vms_per_s=6_000),
        measured(apis=1, broker=True, vms_per_s=3_900),
        measured(apis=1, kind="batch", vms_per_s=120_000),
    ]
    figures = figures_of(found)
    assert [figure.beside.partition(" one api")[0] for figure in figures] == ["1.00×", "1.50×", "0.97×", "1.00×"]
    assert [figure.is_met for figure in figures] == [False, True, False, True]
    assert "placed 3,000/s, p50 1.0 ms, p99 2.0 ms" in figures[1].beside
    assert figures[2].what == "singles, 1 api, 1 scheduler, RabbitMQ"


def test_without_such_a_process_nothing_is_compared():
    [figure] = figures_of([measured(apis=0, vms_per_s=4_000)])
    assert "one api" not in figure.beside


@pytest.mark.parametrize("wrong", ["x", "-1", "65", "1,,2", ""])
def test_a_wrong_number_of_processes_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--apis", wrong])
    assert "--apis" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.service("postgresql")
def test_two_processes_share_the_load_and_everything_acknowledged_is_there():
    with work_folders(Path(tempfile.gettempdir())) as folders:  # where the server's own user may go
        found = list(measure([Line(apis=2, broker=False)], folders[0], plan=TINY, broker_url=lambda: ""))
    assert [one.kind for one in found] == ["vm", "batch"]
    assert all(one.outcome.accepted > 0 and one.placed_per_s > 0 for one in found)
    assert found[1].outcome.accepted == TINY.batch_vms
    assert json.loads(json.dumps(found[0].document()))["line"]["name"] == "2 api, 1 scheduler, no broker"
