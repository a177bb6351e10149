"""Networks of one's own: classes that a recipe, the command line or a program names as "module:Class".

Only `import_class` imports a module. `find_class` serves names from files: it finds classes of modules that are already
imported, so that no file decides which code runs.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from kifu.errors import KifuError, RecipeError, first_line
from kifu.learn.nets.base import Network, NetworkConfig, NetworkOutput

_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)

_OTHER_BOARD = 7, 5
"""Width and height of a board on which networks for any board size are checked, too."""


def is_class_name(name: str) -> bool:
    """Return True if a name is that of a class, "module:Class", not that of one of kifu's networks."""
    return ":" in name


def is_imported(name: str) -> bool:
    """Return True if the module of "module:Class" is imported."""
    return isinstance(sys.modules.get(name.partition(":")[0]), ModuleType)


def import_class(name: str) -> type[Network]:
    """Import the module of "module:Class" and return the class.

    The working directory is first on the path during the import, as it is for `python -m`.

    Raises:
        RecipeError: There is no such module or class, the module raises an error, or the class is not a network.
    """
    module = _split(name)[0]
    sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise RecipeError(
                f"net {name!r}: no module {error.name!r} in the working directory or on Python's path"
            ) from error
        raise RecipeError(f"net {name!r}: cannot import {module}: {_describe(error, module)}") from error
    finally:
        with contextlib.suppress(ValueError):  # the module may have changed the path
            sys.path.remove("")
    return find_class(name)


def find_class(name: str) -> type[Network]:
    """Return the class of "module:Class". Nothing is imported.

    Raises:
        RecipeError: The module is not imported, or has no network of this name.
    """
    module_name, class_name = _split(name)
    if not is_imported(name):
        raise RecipeError(
            f"net {name!r}: module {module_name} is not imported; import it, or open the net as PATH@{name}"
        )
    found = vars(sys.modules[module_name]).get(class_name)  # getattr might import
    if found is None:
        raise RecipeError(f"net {name!r}: module {module_name} has no class {class_name!r}")
    if not (isinstance(found, type) and issubclass(found, Network)):
        raise RecipeError(f"net {name!r}: {class_name} is not a subclass of kifu.learn.nets.Network")
    if not isinstance(getattr(found, "any_size", None), bool):
        raise RecipeError(f"net {name!r}: {class_name} must declare any_size = True or any_size = False")
    return found


def make_checked(name: str, config: NetworkConfig) -> Network:
    """Create a network of a class, and check its outputs for two positions.

    Raises:
        RecipeError: The class raises an error, or its outputs have other shapes than `NetworkOutput` describes.
    """
    cls: Any = find_class(name)  # the constructor of a subclass takes the configuration only
    with _described(name, "be created"):
        network: Network = cls(config)
    sizes = [(config.width, config.height), *([_OTHER_BOARD] if cls.any_size else [])]
    network.eval()
    for width, height in sizes:
        with torch.no_grad(), _described(name, f"evaluate positions of {width} x {height}"):
            planes = torch.ones(2, config.planes, height + 2 * config.rim, width + 2 * config.rim)
            output = network(planes, torch.zeros(2, config.global_size) if config.inputs else None)
        _check_output(name, output, config, width * height)
    network.train()
    return network


def _check_output(name: str, output: object, config: NetworkConfig, points: int) -> None:
    """Raise RecipeError unless the output for two positions has the right shapes and is finite."""
    if not isinstance(output, NetworkOutput):
        raise RecipeError(f"net {name!r} must return a NetworkOutput, got {type(output).__name__}")
    shapes = {"policy": (2, points + config.passes), "value": (2,), "ownership": (2, points)}
    for key, values in output._asdict().items():
        shape = tuple(values.shape) if isinstance(values, torch.Tensor) else None
        expected = shapes[key] if key == "policy" or key in config.heads else None
        if shape != expected:
            text = "be None" if expected is None else f"have shape {list(expected)}"
            raise RecipeError(
                f"net {name!r}: {key} of two positions with {points} points must {text}, got"
                f" {values if shape is None else list(shape)}"
            )
        if shape is not None and not values.is_meta and not bool(values.isfinite().all()):
            raise RecipeError(f"net {name!r}: {key} is NaN or infinite for planes of ones")


@contextlib.contextmanager
def _described(name: str, action: str) -> Iterator[None]:
    """Raise any error of a network's code as a RecipeError with the line."""
    try:
        yield
    except KifuError:
        raise
    except Exception as error:
        raise RecipeError(f"net {name!r} cannot {action}: {_describe(error, _split(name)[0])}") from error


def _describe(error: BaseException, module: str) -> str:
    """Return one line with the error and the last line of the module's package that led to it."""
    package = module.partition(".")[0]
    lines = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    return f"{type(error).__name__}: {first_line(error)}{''.join(lines[-1:])}"


def _split(name: str) -> tuple[str, str]:
    """Return module and class of a name. Raise RecipeError if it is malformed."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise RecipeError(f"net {name!r} must be a module and a class, such as my_module:MyNet")
    return match[1], match[2]
