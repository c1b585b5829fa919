"""From words on the command line to typed values, without what typer would load for it.

typer asks pydantic to read every option, which costs each command 0.2 s before it begins. Our options are texts,
numbers, switches and choices only: reading those takes a page.
"""

import enum
import math
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_YES, _NO = {"1", "true", "t", "yes", "y", "on"}, {"0", "false", "f", "no", "n", "off", ""}


class ReaderGone(Exception):
    """Whoever read our output has closed the pipe. Under its own name typer would call it a failure."""


class LightGroup(TyperGroup):
    def get_help_option(self, ctx: Any) -> Any:
        return _read_by_us(super().get_help_option(ctx))


class LightCommand(TyperCommand):
    """A command whose parameters are read by us."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for parameter in self.params:
            _read_by_us(parameter)

    def get_help_option(self, ctx: Any) -> Any:
        return _read_by_us(super().get_help_option(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error


def _read_by_us(parameter: Any) -> Any:
    """In place of typer's `process_value`: read, complain of what is missing, call back."""
    by_typer = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        typed = read_words(value, parameter, ctx)
        if parameter.required and typed is None:
            return by_typer(ctx, None)  # reported in typer's own words
        return parameter.callback(ctx, parameter, typed) if parameter.callback else typed

    parameter.process_value = process_value
    return parameter


def read_words(value: Any, parameter: Any, ctx: Any = None) -> Any:
    """One parameter's value as its annotation wants it; BadParameter says what would be right."""
    takes_several = parameter.multiple or parameter.nargs == -1
    if value is None:
        return None
    try:
        if takes_several:
            return [_read(word, parameter) for word in value] or None
        return _read(value, parameter)
    except ValueError as error:
        raise typer.BadParameter(str(error), ctx=ctx, param=parameter) from error


def _read(word: Any, parameter: Any) -> Any:
    """A word that is no text any more (a default, a switch) stays as it is."""
    info, wanted = parameter.type_descriptor.parameter_info, parameter.type_descriptor.annotation
    if not isinstance(word, str):
        return word
    if info.parser is not None:
        return info.parser(word)
    if wanted is bool:
        return _switch(word)
    if wanted in {int, float}:
        return _number(word, wanted, info.min, info.max)
    if isinstance(wanted, type) and issubclass(wanted, enum.StrEnum):
        return _choice(word, wanted)
    return word


def _switch(word: str) -> bool:
    lower = word.strip().lower()
    if lower not in _YES | _NO:
        raise ValueError(f"{word!r} is neither yes nor no.")
    return lower in _YES


def _number(word: str, wanted: type, least: float | None, most: float | None) -> int | float:
    try:
        number: int | float = wanted(word)
    except ValueError:
        raise ValueError(f"{word!r} is no {'whole ' if wanted is int else ''}number.") from None
    bounds = [f"at least {least:,}"] if least is not None else []
    bounds += [f"at most {most:,}"] if most is not None else []
    # NaN is neither smaller nor larger than anything
    fits = math.isfinite(number) and (least is None or number >= least) and (most is None or number <= most)
    if not fits:
        raise ValueError(f"{word} is out of range: {' and '.join(bounds) or 'a number that ends'}.")
    return number


def _choice(word: str, wanted: type[enum.StrEnum]) -> enum.StrEnum:
    try:
        return wanted(word)
    except ValueError:
        raise ValueError(f"{word!r} is none of {_words(list(wanted))}.") from None


def _words(choices: Sequence[enum.StrEnum]) -> str:
    return ", ".join(choice.value for choice in choices)
