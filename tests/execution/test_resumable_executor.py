"""Threads that keep results: the same results as without, shards that are not repeated, and what is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clustered import SPANS, Times, expected, given, tries
from kifu.errors import KifuError, OutputError
from kifu.execution.executor import THREADS, Executor, make_executor


def executor(work: Path, jobs: int = 2) -> Executor:
    return make_executor(THREADS, jobs, work, resumable=True)


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_are_the_same_as_without_files(jobs: int, tmp_path: Path) -> None:
    work, marks = tmp_path / "work", tmp_path / "marks"
    marks.mkdir()
    job = Times(3, str(marks))
    with executor(work, jobs) as threads:
        assert given(threads, job, SPANS) == expected(job, SPANS)
        assert given(threads, replace(job, factor=2), SPANS[:2]) == expected(replace(job, factor=2), SPANS[:2])
    assert not work.exists()


@pytest.mark.parametrize("jobs", [1, 3])
def test_complete_shards_are_not_repeated(jobs: int, tmp_path: Path) -> None:
    work, marks = tmp_path / "work", tmp_path / "marks"
    marks.mkdir()
    job = Times(3, str(marks))
    failing = [*SPANS[:5], replace(SPANS[5], failure="record"), *SPANS[6:]]
    with pytest.raises(KifuError), executor(work, jobs) as threads:
        given(threads, job, failing)
    complete = [span for span in SPANS[:5] if tries(marks, span.first, "made") == 1]
    assert complete == SPANS[:5]
    with executor(work, jobs) as threads:
        assert given(threads, job, SPANS) == expected(job, SPANS)
    assert [tries(marks, span.first, "made") for span in SPANS[:5]] == [1] * 5
    assert tries(marks, SPANS[5].first, "made") == 1
    assert not work.exists()


def test_one_caller_holds_the_folder(tmp_path: Path) -> None:
    with executor(tmp_path / "work"), pytest.raises(OutputError, match="another process"):
        executor(tmp_path / "work").__enter__()
