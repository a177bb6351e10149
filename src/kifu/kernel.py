"""The decorators of kernels, which are compiled by `kifu.compiler` at their first call.

Kernels are plain loops over flat arrays of many games. They fill arrays that the caller provides, return a status and
raise nothing. With NUMBA_DISABLE_JIT=1 they run as ordinary Python, for tests and debuggers. Numba is imported with the
first call of a kernel, so modules that define kernels are quick to import.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

DISABLE_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""True if kernels run as ordinary Python."""

_announced = threading.Event()

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call and cache the result on disk."""
    return function if DISABLE_JIT else cast(F, Kernel(function, inline=False))


def inline_kernel(function: F) -> F:
    """Compile `function` into the kernels that call it. Python cannot call it."""
    return function if DISABLE_JIT else cast(F, Kernel(function, inline=True))


class Kernel:
    """A function to be compiled. Its dispatcher is created at its first use, since most kernels are not called."""

    def __init__(self, function: Callable[..., Any], inline: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._inline = function, inline

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher."""
        from kifu import compiler  # imports Numba

        if _announced.is_set():
            compiler.announce_compilation()
        return compiler.new_dispatcher(self.py_func, self._inline)

    @property
    def _numba_type_(self) -> Any:
        """The type of a kernel in the code of another one, where Numba looks for it."""
        return self.dispatcher._type

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        if self._inline:
            raise TypeError(f"{self.py_func.__name__} is compiled into kernels; Python cannot call it")
        return self.dispatcher(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # found in its module


def announce_compilation() -> None:
    """Show progress on standard error while kernels are compiled rather than loaded from the cache."""
    _announced.set()


class _WritableAlias:
    """Describes the memory of an array as writable."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def writable_view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array over the same memory that Numba takes for writable, without copying it.

    To Numba a read-only array is another type, for which it compiles a kernel once more. Kernels never write to their
    inputs, so the arrays over Arrow buffers, byte strings and mapped files that they read are all passed as writable. A
    writable array is returned as it is; others have to be contiguous.
    """
    return array if array.flags.writeable else np.asarray(_WritableAlias(array))
