"""The thread executor, and prefetching."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import RecipeError
from kifu.execution.executor import Executor, prefetch


@given(st.lists(st.integers(), max_size=40), st.integers(1, 5), st.one_of(st.none(), st.integers(0, 9)))
def test_results_are_in_the_order_of_the_items(items, jobs, prefetch):
    def work(item):
        time.sleep(item % 3 / 5000)
        return item * 2

    with Executor(jobs) as executor:
        assert list(executor.map(work, items, prefetch)) == [item * 2 for item in items]


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_prefetch_is_bounded(jobs):
    """Only a few items are read, and results kept, ahead of the caller."""
    drawn, most = [], 0

    def items():
        for item in range(50):
            drawn.append(item)
            yield item

    with Executor(jobs) as executor:
        for taken, _ in enumerate(executor.map(abs, items(), prefetch=3), 1):
            most = max(most, len(drawn) - taken)
    assert most <= 3
    assert len(drawn) == 50


def test_items_are_read_in_the_callers_thread():
    seen = set()

    def items():
        for item in range(20):
            seen.add(threading.get_ident())
            yield item

    with Executor(3) as executor:
        assert len(list(executor.map(lambda item: threading.get_ident(), items()))) == 20
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_is_raised_in_order_and_ends_the_map(jobs):
    before = threading.active_count()
    got = []
    with pytest.raises(ZeroDivisionError), Executor(jobs) as executor:  # noqa: PT012 - the context manager is tested
        for result in executor.map(lambda item: 1 // item, [1, 1, 0, 1, 1, 1, 1, 1, 1]):
            got.append(result)
    assert got == [1, 1]
    assert threading.active_count() == before


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_of_the_items_is_raised_in_order(jobs):
    def items():
        yield from [1, 2, 3]
        raise RecipeError("no fourth")

    got = []
    with pytest.raises(RecipeError, match="no fourth"), Executor(jobs) as executor:  # noqa: PT012 - the context manager is tested
        for result in executor.map(abs, items()):
            got.append(result)
    assert got == [1, 2, 3]


def test_number_of_jobs():
    with Executor() as executor:
        assert executor.jobs >= 1
    for jobs in (0, -3):
        with pytest.raises(RecipeError, match=f"jobs must be >= 1, got {jobs}"):
            Executor(jobs)


def test_one_job_runs_in_the_callers_thread():
    with Executor(1) as executor:
        assert set(executor.map(lambda item: threading.get_ident(), range(5))) == {threading.get_ident()}


def test_prefetch_keeps_the_order_and_its_bound():
    made = []

    def items():
        for k in range(10):
            made.append(k)
            yield k

    taken = []
    for k in prefetch(items(), 2):
        taken.append(k)
        assert len(made) <= k + 3
    assert taken == list(range(10))


def test_prefetch_raises_errors_in_order_and_closes_the_generator():
    ended = []

    def items():
        try:
            yield 1
            yield 2
            raise RecipeError("no third")
        finally:
            ended.append(True)

    running = prefetch(items(), 2)
    assert [next(running), next(running)] == [1, 2]
    with pytest.raises(RecipeError, match="no third"):
        next(running)
    assert ended == [True]
    running = prefetch(items(), 2)
    next(running)
    running.close()
    assert ended == [True, True]
