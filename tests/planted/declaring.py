"""Bugs in how a store that does not declare, or does not have, a whole ability is refused."""

from __future__ import annotations

from tests.planted.bug import Bug

REGISTRY = "reclaim.stores.registry"
DECLARED = "tests/stores/test_declared.py"
WITHOUT = f"{DECLARED}::test_a_store_without_one_of_its_methods_is_not_opened"

BUGS: dict[str, Bug] = {
    "a handle without a method of its ability": Bug(
        REGISTRY,
        drops="check_declared: check_complete",
        test=f"{WITHOUT}[terminus]",
    ),
    "a store of the catalog that is not looked at": Bug(
        REGISTRY,
        right="_load(CATALOG))(workspace)\n    check_declared(store)\n",
        wrong="_load(CATALOG))(workspace)\n",
        test=f"{WITHOUT}[catalog]",
    ),
    "a store that is opened by its scheme and not looked at": Bug(
        REGISTRY,
        right="    store = opener(location)\n    check_declared(store)\n",
        wrong="    store = opener(location)\n",
        test=f"{WITHOUT}[shelf]",
    ),
    "a method of an ability that nobody declares": Bug(
        REGISTRY,
        right="        for ability in ABILITIES - declared:",
        wrong="        for ability in declared - ABILITIES:",
        test=f"{DECLARED}::test_a_method_of_an_ability_that_is_not_declared_is_refused",
    ),
    "half an ability": Bug(
        REGISTRY,
        right="        if isinstance(store, ability) and not issubclass(handle, half):",
        wrong="        if False:",
        test=f"{DECLARED}::test_half_an_ability_is_refused",
    ),
    "the other half of an ability": Bug(
        REGISTRY,
        right="        if issubclass(handle, half) and not isinstance(store, ability):",
        wrong="        if False:",
        test=f"{DECLARED}::test_half_an_ability_is_refused",
    ),
    "an order of deletes that the format does not know": Bug(
        REGISTRY,
        right="    if store.format.sequential != isinstance(store, NeedsOtherSnapshots):",
        wrong="    if False:",
        test=f"{DECLARED}::test_an_order_of_deletes_needs_a_format_with_one",
    ),
    "a class that only looks like a store": Bug(
        REGISTRY,
        right="        if not issubclass(owner, root):",
        wrong="        if False:",
        test=f"{DECLARED}::test_a_class_that_only_looks_like_a_store_is_refused",
    ),
    "a store, or its format, without a method of its ability": Bug(
        "reclaim.stores.declared",
        drops="Declared.__new__: check_complete",
        test=f"{WITHOUT}[terminus]",
    ),
}
