"""What callers give, checked before anything is done: all that is wrong is an `InvalidInputError`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from headgate.core.secrets import is_secret_name, looks_secret
from headgate.errors import InvalidInputError
from headgate.model.identifiers import MAX_NUMBER, Version
from headgate.model.json_object import Json
from headgate.model.record import AppBatch

NO_CHECKS: Mapping[str, Callable[[str], object]] = MappingProxyType({})


def texts(what: str, values: Iterable[str]) -> tuple[str, ...]:
    """Several texts, none of them empty. `what` names them in errors."""
    if isinstance(values, str):
        raise InvalidInputError(f"{what} must be several texts, not one", f"write [{values!r}]")
    if not isinstance(values, Iterable):
        raise InvalidInputError(f"{what} must be several texts, not a {type(values).__name__}")
    given = tuple(values)
    for value in given:
        if not isinstance(value, str) or not value:
            raise InvalidInputError(f"{what} must be non-empty texts, but one is {value!r}")
        require_unicode(what, value)
    return given


def text_by_name(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties whose names and values are texts, and no name is empty."""
    if not isinstance(properties, Mapping):
        raise InvalidInputError(f"properties must be a mapping, not a {type(properties).__name__}")
    texts("property names", properties)
    for name, value in properties.items():
        if not isinstance(value, str):
            raise InvalidInputError(
                f"the value of property {name!r} is a {type(value).__name__}, not a text",
                "write it as a text, in quotes",
            )
        require_unicode(f"the value of property {name!r}", value)
    return dict(properties)


def tag_name(name: str) -> str:
    """The name of a tag: one line without spaces around it."""
    (checked,) = texts("tag names", (name,))
    if checked != checked.strip() or not checked.isprintable():
        raise InvalidInputError(
            f"{name!r} is not a name for a tag", "leave out spaces around it, and line ends"
        )
    refuse_credential("the name of a tag", checked)
    return checked


def refuse_credential(what: str, text: str) -> None:
    """Refuses a text that looks like a credential: no later commit could take it out of the log again.

    `what` names it in the error, which does not show it.
    """
    if looks_secret(text):
        raise InvalidInputError(
            f"{what} looks like a credential, or has one in it, and everybody who reads the lake could read "
            "it for ever",
            "leave it out, and keep it outside of the lake",
        )


def refuse_credentials_in(what: str, value: Json) -> None:
    """The same for every text in a value of JSON, at every depth."""
    match value:
        case str():
            refuse_credential(what, value)
        case list():
            for item in value:
                refuse_credentials_in(what, item)
        case dict():
            for name, item in value.items():
                refuse_credential(what, name)
                # As `name=value`, so that a name which says secret is one.
                refuse_credential(what, f"{name}={item}" if isinstance(item, str) else name)
                refuse_credentials_in(what, item)
        case _:
            return


def public_properties(
    properties: Mapping[str, str], checks: Mapping[str, Callable[[str], object]] = NO_CHECKS
) -> dict[str, str]:
    """Properties of a lake or table, which are kept for ever for everybody who reads the lake.

    A name that says secret is refused, and a value that looks so: no later commit could take the value out of
    the log again. `checks` are those of values that have rules of their own, by name.
    """
    for name, value in text_by_name(properties).items():
        if name in checks:
            checks[name](value)
            continue
        if is_secret_name(name):
            raise InvalidInputError(
                f"the property name {name!r} says that its value is a credential, and everybody who reads "
                "the lake could read it for ever",
                "keep it outside of the lake; if it is no credential, choose another name",
            )
        refuse_credential("the name of a property", name)
        refuse_credential(f"the value of the property {name!r}", value)
    return dict(properties)


def require_unicode(what: str, value: str) -> None:
    """Refuses half of a surrogate pair, as from a file name that is not UTF-8: it has no encoding."""
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError(f"{what}: {value!r} is not valid Unicode")


def app_batch(app: tuple[str, int]) -> AppBatch:
    """An application and the number of its batch."""
    match app:
        case (str(name), int(batch)) if name and not isinstance(batch, bool) and 0 <= batch <= MAX_NUMBER:
            require_unicode("the name of the application", name)
            refuse_credential("the name of the application", name)
            return AppBatch(name, batch)
    raise InvalidInputError(
        f"app must be a name and a batch number from 0 to 2^63 - 1, but is {_shown(app)}",
        'write it as app=("loader", 42)',
    )


def version_number(version: int) -> Version:
    """A version that a caller named; whether the lake has it is another question."""
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= MAX_NUMBER:
        raise InvalidInputError(f"a version is a number from 0 to 2^63 - 1, but got {_shown(version)}")
    return Version(version)


def whole_number(what: str, number: int) -> int:
    """Any integer that is not a truth value."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInputError(f"{what} must be a whole number, but is {_shown(number)}")
    return number


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return f"a {type(value).__name__} that is too large to show"
