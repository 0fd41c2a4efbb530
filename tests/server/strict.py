"""Validation against the SDKs' types as a provider would want it: everything typed, nothing unknown."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter

T = TypeVar("T")


def strictly(kind: type[T] | TypeAdapter[T], data: Any, *, is_json: bool = False) -> T:
    """`data` as `kind`; fails on a wrong type and on any key the SDK does not know."""
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    value = adapter.validate_json(data) if is_json else adapter.validate_python(data)
    strangers = sorted(_strangers(value, "$"))
    assert not strangers, strangers
    return value


def _strangers(value: Any, path: str) -> set[str]:
    if isinstance(value, BaseModel):
        inside = {name: getattr(value, name) for name in type(value).model_fields}
        return {f"{path}.{name}" for name in value.model_extra or ()}.union(
            *(_strangers(item, f"{path}.{name}") for name, item in inside.items())
        )
    if isinstance(value, list):
        return set().union(*(_strangers(item, f"{path}[{index}]") for index, item in enumerate(value)))
    return set()
