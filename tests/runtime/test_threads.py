"""The number of threads: what the user says, else what the machine and its limits allow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tconv
from tconv import threads
from tconv.errors import ProblemError

MANY = 10**6  # processors: more than any quota below


@pytest.fixture
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_affinity", lambda: MANY)


def system(root: Path, cgroup: str, **files: str) -> Path:
    """Write a system's /proc/self/cgroup and files below /sys/fs/cgroup."""
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="ascii")
    return root


@pytest.mark.usefixtures("_many_processors")
@pytest.mark.parametrize(
    ("limit", "cpus"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1000 100000", 1),
        ("1600000 100000", 16),
        ("max 100000", MANY),
        ("", MANY),
        ("nonsense", MANY),
        ("0 100000", MANY),
        ("100000 0", MANY),
    ],
)
def test_version_2_limits_are_rounded_up(tmp_path: Path, limit: str, cpus: int) -> None:
    """``cpu.max`` is quota and period; what is no limit limits nothing."""
    root = system(tmp_path, "0::/", **{"sys/fs/cgroup/cpu.max": limit})

    assert threads.available_cpus(root) == cpus


@pytest.mark.usefixtures("_many_processors")
@pytest.mark.parametrize(
    ("quota", "cpus"), [("250000", 3), ("100000", 1), ("-1", MANY), ("", MANY)]
)
@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_version_1_limits_are_rounded_up(
    tmp_path: Path, folder: str, quota: str, cpus: int
) -> None:
    """Quota and period are two files, in a folder named after the controllers."""
    place = f"sys/fs/cgroup/{folder}/jobs/mine/cpu.cfs"
    limits = {f"{place}_quota_us": quota, f"{place}_period_us": "100000"}
    root = system(tmp_path, f"5:memory:/other\n4:{folder}:/jobs/mine", **limits)

    assert threads.available_cpus(root) == cpus


@pytest.mark.usefixtures("_many_processors")
def test_the_smallest_limit_on_the_way_up_holds(tmp_path: Path) -> None:
    """A limit of an outer group holds for the groups inside it."""
    root = system(
        tmp_path,
        "0::/outer/inner",
        **{
            "sys/fs/cgroup/outer/cpu.max": "300000 100000",
            "sys/fs/cgroup/outer/inner/cpu.max": "800000 100000",
            "sys/fs/cgroup/stranger/cpu.max": "100000 100000",
        },
    )

    assert threads.available_cpus(root) == 3


@pytest.mark.usefixtures("_many_processors")
def test_a_path_from_outside_the_container_falls_back_to_its_root(tmp_path: Path) -> None:
    """Without a namespace of its own a container sees a path that is not mounted."""
    limits = {"sys/fs/cgroup/cpu.max": "400000 100000"}
    root = system(tmp_path, "0::/../docker/0123abcd", **limits)

    assert threads.available_cpus(root) == 4


@pytest.mark.usefixtures("_many_processors")
def test_a_system_without_cgroups_has_no_limit(tmp_path: Path) -> None:
    """Nothing to read is nothing to heed."""
    assert threads.available_cpus(tmp_path) == MANY


def test_affinity_limits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota of sixteen does not give a process of three processors more."""
    monkeypatch.setattr(threads, "_affinity", lambda: 3)
    root = system(tmp_path, "0::/", **{"sys/fs/cgroup/cpu.max": "1600000 100000"})

    assert threads.available_cpus(root) == 3


def default(affinity: int | None = None, **variables: str) -> int:
    """Return the default number of threads of a new process."""
    narrow = f"os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{affinity}])"
    asked = "import tconv\nprint(tconv.get_num_threads())"
    script = f"import os\n{narrow if affinity else ''}\n{asked}"
    path = os.pathsep.join(filter(None, sys.path))
    inherited = {k: v for k, v in os.environ.items() if k != "TCONV_NUM_THREADS"}
    result = subprocess.run(  # noqa: S603 - our own text
        [sys.executable, "-c", script],
        env={**inherited, **variables, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return int(result.stdout)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_pinned_process_uses_the_processors_it_is_pinned_to() -> None:
    """``taskset -c 0`` gives one thread."""
    assert default(affinity=1) == 1


def test_the_environment_variable_wins() -> None:
    """The user may ask for more threads than processors."""
    assert default(TCONV_NUM_THREADS="37") == 37


def test_the_default_is_what_is_available() -> None:
    """Without any wish all processors are used that may be."""
    assert default() == threads.available_cpus()


def test_a_number_that_is_set_is_the_number_that_is_used() -> None:
    """And a refused one changes nothing."""
    before = tconv.get_num_threads()
    try:
        tconv.set_num_threads(5)
        with pytest.raises(ProblemError, match=r"tconv set_num_threads: count is 0\."):
            tconv.set_num_threads(0)

        assert tconv.get_num_threads() == 5
    finally:
        tconv.set_num_threads(before)


def test_a_watcher_hears_of_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool learns this way that it has too many workers."""
    heard: list[int] = []
    monkeypatch.setattr(threads, "_watchers", [])
    before = tconv.get_num_threads()
    threads.watch(heard.append)
    for count in (2, 7, before):
        tconv.set_num_threads(count)

    assert heard == [2, 7, before]
