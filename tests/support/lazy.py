"""Modules that are imported at their first use, so that collecting the tests loads neither torch nor Ray."""

import importlib
from typing import Any


def lazy_import(name: str) -> Any:
    """Return a stand-in for a module or package, which is imported at the first access to an attribute."""
    return _LazyModule(name)


class _LazyModule:
    """Forwards attributes to a module; those of a package include its submodules."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("__", "_mock_")):  # pytest looks for them when it collects tests
            raise AttributeError(attribute)
        module = importlib.import_module(self._name)
        if not hasattr(module, attribute) and hasattr(module, "__path__"):
            importlib.import_module(f"{self._name}.{attribute}")
        found = getattr(module, attribute)
        return _LazyModule(found.__name__) if hasattr(found, "__path__") else found

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(importlib.import_module(self._name), attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(importlib.import_module(self._name), attribute)
