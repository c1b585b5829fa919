"""Times of failovers are not made to look better than they were."""

from bench.failover import FailedOver


def test_a_quantile_is_a_time_that_was_measured_and_never_a_shorter_one():
    found = FailedOver(hosts=1, lease_s=2, taken_s=[0.4, 0.2, 0.3, 1.9])
    assert found.quantile_s(0.5) == 0.4
    assert found.quantile_s(0.99) == 1.9
    assert found.document() == {
        "hosts": 1,
        "lease_s": 2,
        "taken_s": [0.4, 0.2, 0.3, 1.9],
        "p50_s": 0.4,
        "p99_s": 1.9,
        "max_s": 1.9,
    }
