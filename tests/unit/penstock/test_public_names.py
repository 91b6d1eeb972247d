"""A name that users import from `penstock` is never that of a module: once imported, the module would stand in its
place."""

from __future__ import annotations

import pkgutil

import penstock


def test_no_module_has_the_name_of_a_public_class_or_function() -> None:
    modules = {module.name for module in pkgutil.iter_modules(penstock.__path__)}
    assert modules & set(penstock._HOMES) == set()
