"""Shared fixtures."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import http_server
import limits

os.environ["KERAS_BACKEND"] = "torch"  # else Keras looks for TensorFlow
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests run in one process per core
# A shell lets what it starts in the background ignore Ctrl-C, nohup ignores SIGHUP; so would the commands under test.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Tests write thousands of small files and crash no machine. Those of fsync set it anew.
os.fsync = lambda _: None

# Choose another profile with --hypothesis-profile.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.register_profile("interpreted", settings.get_profile("default"), max_examples=8)
settings.load_profile("interpreted" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "default")


def _forbid_negative_indices() -> None:
    """Make them fail bounds checks: Numba counts them from the end of the array."""
    from numba.core import types
    from numba.np import arrayobj

    def unchanged(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, index_type, types.intp if index_type.signed else types.uintp)

    arrayobj.fix_integer_index = unchanged


if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
    _forbid_negative_indices()
limits.install()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real archives and references beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared")
    return folder


FIRST = [
    "cli/test_app.py", "execution/test_ray_executor.py", "learn/test_train.py", "planes/test_features.py",
    "planes/test_encoder.py", "promises/test_shuffle_killed.py", "datasets/test_ray_data.py",
    "promises/test_planted_links.py", "promises/test_atomic.py", "go/test_ladder.py", "planes/test_registry_alphago.py",
    "corpus/test_ingest_real.py", "recipes/test_examples.py", "recipes/test_pipeline_removed.py",
    "recipes/test_pipeline.py", "recipes/test_pipeline_broken.py", "test_convert.py", "datasets/test_loader.py",
    "datasets/test_torch_data.py", "promises/test_foreign_text.py", "learn/test_registry_own.py",
    "learn/test_evaluate.py", "learn/test_export.py", "learn/test_annotate.py", "learn/test_networks.py",
    "learn/test_train_value.py", "records/test_sevenzip.py", "records/test_detect.py", "recipes/test_olf_archive.py",
    "search/test_match_kombilo.py", "cli/test_demo.py", "test_public.py", "web/test_api_library.py",
    "web/test_server.py", "web/pages/test_every.py", "web/pages/test_games.py", "play/test_gtp.py",
    "play/test_match.py", "publication/test_publish.py", "web/pages/test_review.py", "promises/test_long_games.py",
]  # fmt: skip
"""The files that take longest. They run first, so that no process waits for one of them at the end."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker("subprocess")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(FIRST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: places.get(item.path.relative_to(tests).as_posix(), len(FIRST)))


_imported = pytest.StashKey[frozenset[str]]()


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # nearly all that collection creates stays


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_imported] = frozenset(sys.modules)
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    limits.started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail tests that start processes or take long without the marks that say so."""
    began = limits.cpu_time()
    result = yield
    seconds = limits.cpu_time() - began
    if {mark.name for mark in item.iter_markers()} & {"slow", "thorough", "exhaustive", "subprocess"}:
        return result
    if limits.started:
        pytest.fail(f"starts processes without the mark subprocess: {limits.started}", pytrace=False)
    if seconds > 1 and seconds > limits.budget():
        pytest.fail(f"takes {seconds:.2f} s of CPU time without the mark slow", pytrace=False)
    return result


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[http_server.Site]:
    """A local web server, which `kifu.fetch` asks without a proxy and without pauses."""
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("kifu.fetch.fetching._PAUSE_S", 0.0)
    with http_server.site() as site:
        yield site


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of copies of files at URLs, empty at first."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr("kifu.records.paths.user_cache", lambda: folder)
    (copies := folder / "kifu" / "sources").mkdir(parents=True, mode=0o700)
    return copies


@pytest.fixture
def imported_by_collection(pytestconfig: pytest.Config) -> frozenset[str]:
    """The names of all modules that had been imported before the first test ran."""
    return pytestconfig.stash[_imported]
