"""Compilation of kernels by Numba, the compiled code on disk, and the progress of compilation.

Everything that depends on Numba's internals is in this module: `_CachedDispatcher` derives from Numba's dispatcher
class, `_InlinedCode` and `_LoadedCode` from the class of its compiled code, and `_Cache` stands for its cache class.

Compiled code is keyed on content, by a fingerprint of the byte code of the kernel and of every function, constant and
class it uses, with the signature, the CPU, and the versions of Python and Numba. So editing a comment, a docstring or
an unrelated function never recompiles, any other change always does, and all checkouts of a user share the entries.
It is looked for first in the package, where `make dist` puts code for any CPU with BASELINE's features, then in
NUMBA_CACHE_DIR if that is set, else in ~/.cache/kifu, or if that is not writable in the package's __pycache__. Relative
folders are ignored, as is Numba's .numba_config.yaml: unpickling code from a folder that came with a data set would run
it. The least recently used entries are deleted, and all may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import os
import pickle
import platform
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from kifu.errors import RecipeError
from kifu.io import NO_LINK, hidden_file, lock_file, private_folder, user_cache
from kifu.progress import Progress, progress
from kifu.text import shorten

with hidden_file(".numba_config.yaml"):
    import numba
    from numba.core import event
    from numba.core.codegen import JITCodeLibrary, get_host_cpu_features, ll
    from numba.core.compiler import Compiler, CompileResult
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.compiler_machinery import PassManager
    from numba.core.registry import CPUDispatcher
    from numba.core.serialize import dumps

numba.core.config._config_fname = os.devnull  # which Numba looks for again at each compilation
numba.core.config.reload_config()  # a program may have imported Numba before

PACKAGED = Path(__file__).parent / "assets" / "kernels"
"""The folder of compiled kernels that come with a wheel."""

_X86_64_V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
BASELINE = {
    **dict.fromkeys(("x86_64", "amd64"), ("x86-64-v3", ",".join(f"+{name}" for name in _X86_64_V3.split()))),
    **dict.fromkeys(("aarch64", "arm64"), ("generic", "")),
}.get(platform.machine().lower(), ("", ""))
"""Names of the CPU and of the features, as of LLVM, for which the packaged kernels are compiled."""

_MAX_CACHED = 1000
"""Number of compiled signatures that the user's folder keeps, at up to 500 kB each. The tests use about 300."""

_HASH_SIZE = 16
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | NO_LINK

# nogil: threads run kernels side by side. error_model numpy: loops do not check for division by zero. _nrt off: kernels
# allocate nothing, so they need no reference counts, whose atomic increments at each inlined call took two thirds of
# the replay's time (6 against 20 million moves a second). boundscheck is off, since callers check what they pass; the
# slow tests set NUMBA_BOUNDSCHECK, which is listed here because the options are part of the cache key.
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
if numba.config.BOUNDSCHECK:
    _OPTIONS["boundscheck"] = True
# Without an entry point for Python, a function that is only inlined compiles in half the time.
_INLINE_OPTIONS = {**_OPTIONS, "no_cpython_wrapper": True}
_MAX_FORCED = 400
"""Bytes of byte code up to which functions that read records are always inlined; LLVM decides on longer ones."""

_UNUSED_PASSES = {
    "WithLifting", "InlineClosureLikes", "RewriteDynamicRaises", "MakeFunctionToJitFunction", "InlineInlinables",
    "FindLiterallyCalls", "LiteralUnroll", "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites",
    "NoPythonSupportedFeatureValidation", "AnnotateTypes", "DumpParforDiagnostics",
}  # fmt: skip


def new_dispatcher(function: Callable[..., Any], inline: bool) -> CPUDispatcher:
    """Return a dispatcher that compiles a function at its first call. inline: into the functions that call it, only."""
    if inline:
        # Calls with a board, whose arrays are an argument each, are slow.
        is_forced = len(function.__code__.co_code) <= _MAX_FORCED or not function.__module__.startswith("kifu.records.")
        options = _INLINE_OPTIONS | {"forceinline": is_forced}
        return CPUDispatcher(function, targetoptions=options, pipeline_class=_InlineCompiler)
    return _CachedDispatcher(function, targetoptions=dict(_OPTIONS), pipeline_class=_Compiler)


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel. What it calls is optimized with it, without Numba's passes for references."""

    def _optimize_functions(self, module: Any) -> None:
        """Skip functions that read records, which are as fast without; boards would take twice the time."""
        module.data_layout = self._codegen._data_layout
        if not self.name.startswith("kifu.records."):
            super()._optimize_functions(module)

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == ll.Linkage.linkonce_odr:
                function.linkage = "internal"  # where it is called once, LLVM inlines it whatever its size
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _InlinedCode(_Code):
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


class _Compiler(Compiler):  # type: ignore[misc]
    """Compiles without the passes for what kernels lack: closures, array expressions, exceptions, parallel loops."""

    _library: type[_Code] = _Code

    def define_pipelines(self) -> Any:
        state, function = self.state, self.state.func_id  # Numba creates the library later unless there is one
        state.library = self._library(state.targetctx.codegen(), f"{function.modname}.{function.func_qualname}")
        state.library.enable_object_caching()
        (pipeline,) = super().define_pipelines()
        passes = PassManager(pipeline.pipeline_name)
        passes.passes = [each for each in pipeline.passes if each[0].__name__ not in _UNUSED_PASSES]
        passes.finalize()
        return [passes]


class _InlineCompiler(_Compiler):
    _library = _InlinedCode


class _LoadedCode(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel from disk. Its LLVM IR, whose parsing takes most of the time, only serves other kernels."""

    _shared_module: Any

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, (machine_code, bitcode, symbols) = state
        self = cls(codegen, name)
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._bitcode = bitcode
        self._finalize_final_module()
        codegen._engine._defined_symbols |= symbols
        return self

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = ll.parse_bitcode(self._bitcode)
        return self._shared_module


class _CachedDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A dispatcher that sets its cache at the first compilation, when all globals that it uses are defined."""

    _cache: Any

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:
            if not isinstance(self._cache, _Cache):
                self._cache = _Cache(self.py_func)
            with self._cache.lock(sig, self.targetctx):
                try:
                    return super().compile(sig)
                except (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError) as error:
                    raise _compilation_error(self.py_func.__name__, error) from error


def _compilation_error(kernel: str, error: Exception) -> RecipeError:
    """Return Numba's error in one line, with the first place in it that is neither in kifu nor in Numba."""
    found = re.findall(r'(?:(?:from|at) |File ")(\S[^\n]{0,400}?)(?: \(|", line )(\d+)', text := str(error))
    libraries = (str(Path(__file__).parent), str(Path(numba.__file__).parent))
    places = [f"{file}, line {line}" for file, line in found if not str(Path(file).resolve()).startswith(libraries)]
    reason = next((line for line in text.splitlines() if line and not line.startswith("Failed in")), "")
    reason = "an import must be outside the function" if "IMPORT_NAME" in reason else shorten(reason, 160)
    where = [*places, *re.findall(r"<function (\w+) at", text), kernel][0]
    return RecipeError(f"{where} cannot be compiled: {reason}")


class _Cache:
    """The compiled signatures of a kernel on disk; what a dispatcher of Numba needs of its cache.

    A file holds a hash, then the pickled code of one signature. A file that is damaged, of another version or without
    its classes counts as missing. Unpickling runs code, so a folder is used only if no other user can write to it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        digest, modules = fingerprint(function)
        # Loading an entry imports the modules of all its functions, so code that was only executed is not kept.
        self._stem = f"{function.__module__}.{function.__qualname__}-{digest}" if modules <= sys.modules.keys() else ""
        self._folder = _cache_folder() if self._stem else None

    def _path(self, folder: Path, sig: Any, cpu: tuple[str, ...]) -> Path:
        target = cpu[0].rstrip("0123456789.")  # without the version of macOS
        key = repr((sig, target, *cpu[1:], numba.__version__, sys.implementation.cache_tag))
        return folder / f"{self._stem}-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}.kernel"

    def _paths(self, sig: Any, target_context: Any) -> list[Path]:
        """Return where the code of a signature may lie: in the package if this CPU can run it, in the user's folder."""
        cpu = target_context.codegen().magic_tuple()
        packaged = [self._path(PACKAGED, sig, (cpu[0], *BASELINE))] if self._stem and _runs_baseline() else []
        return packaged + ([self._path(self._folder, sig, cpu)] if self._folder else [])

    @contextlib.contextmanager
    def lock(self, sig: Any, target_context: Any) -> Iterator[None]:
        """Let one process at a time load or compile the kernel: the others wait and load what the first one saved."""
        if self._folder is None or any(path.is_file() for path in self._paths(sig, target_context)):
            yield
            return
        with os.fdopen(os.open(self._folder / f"{self._stem}.lock", _LOCK_FLAGS, 0o600), "r+b") as lock:
            lock_file(lock.fileno(), wait=True)
            yield

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature, from the package or else from the user's folder, or None."""
        for path in self._paths(sig, target_context):
            with contextlib.suppress(Exception):  # any, since damaged or old entries cannot be unpickled
                digest, payload = (data := path.read_bytes())[:_HASH_SIZE], data[_HASH_SIZE:]
                if digest == hashlib.blake2b(payload, digest_size=_HASH_SIZE).digest():
                    compiled = self._rebuild(target_context, *pickle.loads(payload))
                    if compiled.signature.args == sig:
                        if path.parent != PACKAGED:
                            os.utime(path)  # see _prune
                        return compiled
        return None

    def save_overload(self, sig: Any, compiled: Any) -> None:
        if self._folder is None or compiled.library.has_dynamic_globals or compiled.lifted:
            return
        (name, _, code), *others = compiled._reduce()
        module = compiled.library._get_module_for_linking()
        defined = (each for part in (module.functions, module.global_variables) for each in part)
        symbols = {each.name for each in defined if not each.is_declaration}
        payload = dumps(((name, (*code, symbols)), *others))
        path = self._path(self._folder, sig, compiled.library.codegen.magic_tuple())
        temporary = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # the disk is full: compile again in each process
            temporary.write_bytes(hashlib.blake2b(payload, digest_size=_HASH_SIZE).digest() + payload)
            temporary.replace(path)
            self._prune(self._folder)

    @staticmethod
    def _rebuild(target_context: Any, *parts: Any) -> Any:
        """Return compiled code; Numba's lock is held, so only this code is of the other class."""
        codegen = target_context.codegen()
        codegen._library_class = _LoadedCode
        try:
            return CompileResult._rebuild(target_context, *parts)
        finally:
            del codegen._library_class

    @staticmethod
    def _prune(folder: Path) -> None:
        """Delete the kernels that were not used for the longest time while there are more than _MAX_CACHED."""
        for path in sorted(folder.glob("*.kernel"), key=lambda path: path.stat().st_mtime)[:-_MAX_CACHED]:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.stem.rpartition('-')[0]}.lock").unlink(missing_ok=True)


@functools.cache
def _runs_baseline() -> bool:
    name, features = BASELINE
    return bool(name) and set(features.split(",")) <= {"", *get_host_cpu_features().split(",")}


def _cache_folder() -> Path | None:
    """Return the user's folder of compiled kernels; None if none can be written to by this user alone."""
    numba_cache = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    folders = [numba_cache] if numba_cache.is_absolute() else [user_cache(), Path(__file__).parent / "__pycache__"]
    return private_folder(folder / "kifu" for folder in folders if folder.is_absolute())


def fingerprint(function: Callable[..., Any]) -> tuple[str, frozenset[str]]:
    """Return a hash of the byte code of `function` and of every constant, function and class that it uses.

    Docstrings, comments and line numbers do not count.
    """
    walk = _Walk()
    walk.add(function)
    return (hashlib.blake2b("\n".join(walk.lines).encode(), digest_size=10).hexdigest(), frozenset(walk.modules))


class _Walk:
    """Collects a description of a function and of all that it refers to; `modules` are those of all functions in it."""

    def __init__(self) -> None:
        self.lines = [repr(_OPTIONS), str(_MAX_FORCED)]
        self.modules: set[str] = set()
        self.functions: set[int] = set()
        self._globals: set[int] = set()

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
        if id(names) not in self._globals:
            self._globals.add(id(names))
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
        self.lines.append(f"{value.__module__}.{value.__qualname__} {members}")


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


@functools.cache  # registered once
def announce_compilation() -> None:
    """Show progress on standard error while kernels are compiled rather than loaded."""
    event.register("numba:compile", _CompilationProgress())
