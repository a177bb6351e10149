"""The one decorator around `numba.njit`: compiler options, the on-disk cache, and the progress of compilation.

Kernels are plain loops over flat arrays of many games. They fill arrays that the caller provides, return a status and
raise nothing. With NUMBA_DISABLE_JIT=1 they run as ordinary Python, for tests and debuggers.

Everything that depends on Numba's internals is in this module: `_Kernel` and `_Inlined` derive from Numba's dispatcher
class, `_InlinedCode` from the class of its compiled code, and `_KernelCache` from its cache class.

The cache is keyed on content. Numba names an entry after the file and line of a function and stamps it with a hash of
that one file, although functions of other files are compiled into it. Here the key is a fingerprint of the byte code of
the kernel and of every function, constant and class it uses. So editing a comment, a docstring or an unrelated
function never recompiles, any other change always does, and all checkouts of a user share the entries. They are stored
in NUMBA_CACHE_DIR if it is set, else in ~/.cache/kifu, or if that is not writable in the package's __pycache__. The
least recently used ones are deleted, and all may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import functools
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from kifu.progress import Progress, progress

_MAX_CACHED = 1000
"""Number of kernels that the cache keeps, at up to 500 kB each. The tests use about 300."""

F = TypeVar("F", bound=Callable[..., Any])

# nogil: threads run kernels side by side. error_model numpy: loops do not check for division by zero. _nrt off: kernels
# allocate nothing, so they need no reference counts, whose atomic increments at each inlined call took two thirds of
# the replay's time (6 against 20 million moves a second). boundscheck is off, since callers check what they pass; the
# slow tests set NUMBA_BOUNDSCHECK, which is listed here because the options are part of the cache key.
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": False}
if numba.config.BOUNDSCHECK:
    _OPTIONS["boundscheck"] = True
# Without an entry point for Python, a function that is only inlined compiles in half the time.
_INLINE_OPTIONS = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile `function` at its first call and cache the result on disk."""
    if numba.config.DISABLE_JIT:
        return function
    return cast(F, _Kernel(function, targetoptions=dict(_OPTIONS)))


def inline_kernel(function: F) -> F:
    """Compile `function` into the kernels that call it. Python cannot call it."""
    if numba.config.DISABLE_JIT:
        return function
    return cast(F, _Inlined(function, targetoptions=dict(_INLINE_OPTIONS), pipeline_class=_InlineCompiler))


class _InlinedCode(JITCodeLibrary):  # type: ignore[misc]
    """An inlined function as LLVM IR, which only the kernels that call it optimize and translate to machine code.

    Numba would optimize and translate each inlined function, with all that it inlines, once more.
    """

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, *_: Any) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _InlineCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function to `_InlinedCode`."""

    def define_pipelines(self) -> Any:
        state = self.state  # Numba creates the library later unless there is one
        state.library = _InlinedCode(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is compiled into kernels; Python cannot call it")


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A dispatcher that enables its cache at the first compilation, when all globals that it uses are defined."""

    _lock = threading.Lock()
    _cache_sought = False

    def compile(self, sig: Any) -> Any:
        with self._lock:
            if not self._cache_sought:
                self.enable_caching()
                self._cache_sought = True
        if not isinstance(self._cache, _KernelCache):
            return super().compile(sig)
        with global_compiler_lock, self._cache.lock():
            return super().compile(sig)

    def enable_caching(self) -> None:
        # Numba imports the modules of all functions when it loads an entry, so code that was only executed is not kept.
        if fingerprint(self.py_func).modules <= sys.modules.keys():
            with contextlib.suppress(RuntimeError):  # no writable directory: compile again in each process
                self._cache = _KernelCache(self.py_func)


class _Locator:
    """Names and finds cache entries by content; see `numba.core.caching._CacheLocator`, whose interface this is."""

    def __init__(self, function: Callable[..., Any], source: str, directory: Path) -> None:
        self._py_file = source  # Numba's warnings mention it
        self._directory = directory
        self._digest = fingerprint(function).digest

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> _Locator | None:
        for directory in _cache_directories():
            locator = cls(function, source, directory)
            with contextlib.suppress(OSError):
                locator.ensure_cache_path()
                return locator
        return None

    def ensure_cache_path(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self._directory).close()  # raises OSError if it is not writable

    def get_cache_path(self) -> str:
        return str(self._directory)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return self._digest


class _KernelCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _KernelCacheImpl

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process at a time load or compile the kernel: the others wait and load what the first one saved."""
        path = Path(self.cache_path, f"{self._impl.filename_base}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b") as lock:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            loaded = super().load_overload(sig, target_context)
        except (ImportError, AttributeError):  # it refers to a module or a class that another version had
            self.flush()
            return None
        if loaded is not None:
            with contextlib.suppress(OSError):  # a cache that others own
                os.utime(Path(self.cache_path, f"{self._impl.filename_base}.nbi"))
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        self._prune()

    def _prune(self) -> None:
        """Delete the kernels that were not used for the longest time while there are more than _MAX_CACHED."""
        with contextlib.suppress(OSError):  # other processes delete files, too
            indices = sorted(Path(self.cache_path).glob("*.nbi"), key=lambda path: path.stat().st_mtime)
            for index in indices[:-_MAX_CACHED]:
                for path in Path(self.cache_path).glob(f"{index.stem}.*"):
                    path.unlink()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Numba adds hashes of the byte code and the pickled closure. The entry's name has the former already, and
        # pickled kernels differ in each process.
        return sig, codegen.magic_tuple()


def _cache_directories() -> list[Path]:
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR, "kifu")]
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [user / "kifu", Path(__file__).parent / "__pycache__"]


class Fingerprint(NamedTuple):
    """Identifies the code of a kernel.

    Attributes:
        digest: 20 hexadecimal digits, a hash of the code and all that it uses.
        modules: Names of the modules of all functions in it.
    """

    digest: str
    modules: frozenset[str]


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """Return a hash of the byte code of `function` and of every constant, function and class that it uses.

    Docstrings, comments and line numbers do not count.
    """
    walk = _Walk()
    walk.add(function)
    return Fingerprint(
        hashlib.blake2b("\n".join(walk.lines).encode(), digest_size=10).hexdigest(), frozenset(walk.modules)
    )


class _Walk:
    """Collects a description of a function and of everything that it refers to, directly or not.

    Attributes:
        modules: Names of the modules of all functions in it.
    """

    def __init__(self) -> None:
        self.lines = [repr(_OPTIONS), repr(_INLINE_OPTIONS)]
        self.modules: set[str] = set()
        self.functions: set[int] = set()

    def add(self, value: Any) -> None:
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, np.ndarray):
            self.lines.append(f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}")
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, ModuleType):
            self.lines.append(value.__name__)
        elif isinstance(value, tuple | list):
            for each in value:
                self.add(each)
        elif isinstance(value, frozenset):
            self.lines.append(repr(sorted(map(repr, value))))
        elif type(value).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]  # it contains the address
            self.lines.append(type(value).__qualname__)
        else:
            self.lines.append(repr(value))

    def _add_function(self, function: FunctionType) -> None:
        if id(function) in self.functions:
            return
        self.functions.add(id(function))
        self.modules.add(function.__module__)
        code, names = function.__code__, function.__globals__
        self.lines += [function.__module__, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        constants = code.co_consts
        self._add_code(code, constants[1:] if constants[:1] == (function.__doc__,) else constants, names)
        for cell in function.__closure__ or ():
            self.add(cell.cell_contents)
        self.add(function.__defaults__ or ())
        # The parameters of a kernel may be named tuples that its code does not name.
        for _, value in sorted(names.items()):
            if isinstance(value, type) and issubclass(value, tuple):
                self._add_class(value)

    def _add_code(self, code: CodeType, constants: tuple[Any, ...], names: dict[str, Any]) -> None:
        self.lines += [code.co_code.hex(), repr(code.co_names)]
        for constant in constants:
            if isinstance(constant, CodeType):
                self._add_code(constant, constant.co_consts, names)
            else:
                self.add(constant)
        for name in code.co_names:
            value = names.get(name)
            self.add(value)
            if isinstance(value, ModuleType) and not value.__name__.startswith(("numpy", "numba", "math")):
                for attribute in code.co_names:
                    self.add(getattr(value, attribute, None))

    def _add_class(self, value: type) -> None:
        members = [(m.name, m.value) for m in value] if issubclass(value, enum.Enum) else getattr(value, "_fields", ())
        self.lines.append(f"{value.__qualname__} {members}")


class _WritableAlias:
    """Describes the memory of an array as writable."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def writable_view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array over the same memory that Numba takes for writable, without copying it.

    To Numba a read-only array is another type, for which it compiles a kernel once more. Kernels never write to their
    inputs, so the arrays over Arrow buffers, byte strings and mapped files that they read are all passed as writable.

    Args:
        array: A contiguous array, returned as it is if it is writable.
    """
    return array if array.flags.writeable else np.asarray(_WritableAlias(array))


class _CompilationProgress(event.Listener):  # type: ignore[misc]
    """Shows which kernel is compiled, and how many of its functions have been compiled.

    Numba compiles in one thread at a time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._functions: set[int] = set()
        self._shown = contextlib.ExitStack()
        self._bar: Progress | None = None

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            function = event.data["dispatcher"].py_func
            walk = _Walk()
            walk.add(function)
            self._functions = walk.functions
            label = f"compiling kernel {function.__name__}"
            self._bar = self._shown.enter_context(
                progress(label, total=len(self._functions), unit="functions", transient=True)
            )
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        function = id(event.data["dispatcher"].py_func)
        if function in self._functions and self._bar is not None:  # it may be compiled again for other types
            self._functions.remove(function)
            self._bar.advance()
        if self._depth == 0:
            self._shown.close()


@functools.cache  # registered once, however many commands a process runs
def announce_compilation() -> None:
    """Show progress on standard error while kernels are compiled rather than loaded from the cache."""
    event.register("numba:compile", _CompilationProgress())
