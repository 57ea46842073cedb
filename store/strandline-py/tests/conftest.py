import pytest

import strandline

# The smallest possible runs.
SHORT = dict(workload="queue", transactions=20, warm_up_transactions=0, log_bytes=65536)


@pytest.fixture
def short():
    return dict(SHORT)


@pytest.fixture
def points():
    """Six points, some milliseconds each."""
    return strandline.points(scheme=["base", "bppm"], sweep={"nvm.write_ns": [100, 200, 400]}, **SHORT)


@pytest.fixture
def slow_points():
    """Points that take so long that a worker can be killed meanwhile."""
    more = {**SHORT, "transactions": 3000}
    return strandline.points(scheme=["base", "bppm"], sweep={"nvm.write_ns": list(range(100, 900, 100))}, **more)


def files(folder):
    """Returns the results of a sweep as bytes."""
    return {name: (folder / name).read_bytes() for name in ("points.jsonl", "points.csv", "sweep.json")}
