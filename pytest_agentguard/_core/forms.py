"""Plans that were made before, with room for new ids: an equal reply is not encoded twice. Pure.

Every response has names and ids of its own, and nothing else in a plan differs between two answers of one
reply. A form is a plan with those places left blank. Before a form is used, it has proved itself: filled with
the ids of another plan it equals that plan. What a dialect makes of ids in some other way has no form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import Event
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Mark, Note, Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply

_MARK_BYTES = 100  # about what a form keeps for a mark
_Key = tuple[Reply, str, str, bool, bool, tuple[str, ...] | None]


class Forms:
    """Plans replies. What is planned a second time leaves a form, which serves from then on.

    At most ``limit_bytes`` are kept, then everything is forgotten.
    """

    def __init__(self, *, limit_bytes: int = limits.FORM_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._known: dict[int, tuple[_Key, Setting, Form] | None] = {}  # None: seen, and no form (yet)
        self._refused: set[int] = set()

    def plan(self, reply: Reply, setting: Setting) -> Plan:
        """The same as ``planning.plan``."""
        key = (reply, setting.dialect.id, setting.mode, setting.strict, setting.lane != "", setting.tools)
        try:
            number = hash(key)
        except TypeError:  # a reply that holds what cannot be compared
            return plan(reply, setting)
        if number in self._known:
            form = self._form(number, key, setting)
            if form is not None:
                return form.filled(setting)
        else:
            self._keep(number, None, 0)
        return plan(reply, setting)

    def _form(self, number: int, key: _Key, setting: Setting) -> Form | None:
        known = self._known.get(number)
        if known is not None:
            is_it = known[1].dialect is setting.dialect and known[0] == key
            return known[2] if is_it else None
        form = None if number in self._refused else made_form(key[0], setting)
        if form is None or form.size > self._limit:
            self._refused.add(number)
            return None
        self._keep(number, (key, setting, form), form.size)
        return form

    def _keep(self, number: int, entry: tuple[_Key, Setting, Form] | None, size: int) -> None:
        self._size += size
        if self._size > self._limit or len(self._known) >= limits.FORMS:
            self._known.clear()
            self._refused.clear()
            self._size = size
        self._known[number] = entry


@cache
def forms() -> Forms:
    """The forms of this process."""
    return Forms()


class Form:
    """A plan with room for names and ids."""

    def __init__(self, made: Plan, drawn: _Drawn) -> None:
        blanks = _Blanks(drawn.values)
        self.size = len(made.body) + _MARK_BYTES * (len(made.marks) + len(made.spoken))
        self._made = made
        self._kinds = drawn.kinds
        self._body = blanks.body(made.body)
        self._marks = [(n, m, k) for n, m in enumerate(made.marks) if (k := blanks.place(m.key)) is not None]
        self._spoken = [
            (n, at, blanks.text(key), blanks.text(said))
            for n, (at, key, said) in enumerate(made.spoken)
            if blanks.place(key) is not None or blanks.place(said) is not None
        ]
        self._notes = [(at, note.kind, note.fields, blanks.places(note.fields)) for at, note in made.notes]
        self._texts = blanks.texts

    def filled(self, setting: Setting) -> Plan:
        """The plan with the names of ``setting`` and new ids."""
        ids, made = setting.ids, self._made
        values = [
            setting.stream,
            setting.request,
            setting.lane,
            *[getattr(ids, kind)() for kind in self._kinds],
        ]
        body = self._body(values)
        values += [_filled(text, values) for text in self._texts]
        marks, spoken = made.marks, made.spoken
        if self._marks:
            new_marks = list(marks)
            for n, mark, key in self._marks:
                new_marks[n] = Mark(mark.at, mark.what, values[key], mark.piece)
            marks = tuple(new_marks)
        if self._spoken:
            new_spoken = list(spoken)
            for n, at, key, said in self._spoken:
                new_spoken[n] = at, values[key], values[said]
            spoken = tuple(new_spoken)
        notes = tuple([(at, _note(kind, fields, new, values)) for at, kind, fields, new in self._notes])
        return Plan(
            made.status,
            made.headers,
            body,
            marks,
            made.stop,
            made.moves,
            made.chunks,
            made.framing,
            made.end,
            notes,
            made.complete_at,
            made.fault_at,
            spoken,
        )


def _note(
    kind: type[Event], fields: dict[str, Any], new: Sequence[tuple[str, int]], values: Sequence[str]
) -> Note:
    fields = fields.copy()
    for name, place in new:
        fields[name] = values[place]
    return Note(kind, fields)


def made_form(reply: Reply, setting: Setting) -> Form | None:
    """The form of ``reply``; None where two of its plans differ in more than names and ids."""
    one, other = _Drawn("{one}"), _Drawn("{another}")  # a length that reached the body would show
    form = Form(plan(reply, one.setting(setting)), one)
    expected = plan(reply, other.setting(setting))
    return form if form.filled(other.again(setting)) == expected and one.kinds == other.kinds else None


class _Drawn:
    """Names that occur nowhere else, and ids that are noted as they are drawn."""

    def __init__(self, name: str) -> None:
        self.kinds: list[str] = []
        self.values = [f"{name}.stream", f"{name}.request", f"{name}.lane"]
        self._name = name
        self._ids = CountedIds(name)

    def setting(self, like: Setting) -> Setting:
        """``like`` with these names and ids."""
        stream, request, lane = self.values[:3]
        return replace(like, ids=self, stream=stream, request=request, lane=lane if like.lane else "")

    def again(self, like: Setting) -> Setting:
        """The same names, and the same ids once more."""
        return replace(self.setting(like), ids=CountedIds(self._name))

    def response(self) -> str:
        """As ``CountedIds``."""
        return self._noted("response", self._ids.response())

    def call(self) -> str:
        """As ``CountedIds``."""
        return self._noted("call", self._ids.call())

    def nonce(self) -> str:
        """As ``CountedIds``."""
        return self._noted("nonce", self._ids.nonce())

    def _noted(self, kind: str, value: str) -> str:
        self.kinds.append(kind)
        self.values.append(value)
        return value


@dataclass(frozen=True, slots=True)
class _Text:
    """Every second piece is a value, given by its number."""

    pieces: list[str]
    numbers: list[int]


class _Blanks:
    """Finds the places of values. What is made of values has a place behind them."""

    def __init__(self, values: Sequence[str]) -> None:
        self.texts: list[_Text] = []
        self._places = {value: n for n, value in enumerate(values)}
        self._any = re.compile(f"({'|'.join(map(re.escape, values))})")

    def place(self, text: object) -> int | None:
        """The place of ``text``; None where no value is in it."""
        if not isinstance(text, str) or self._any.search(text) is None:
            return None
        return self.text(text)

    def text(self, text: str) -> int:
        """The place of any text."""
        if text not in self._places:
            self._places[text] = len(self._places)
            self.texts.append(self._split(text))
        return self._places[text]

    def places(self, fields: Mapping[str, object]) -> list[tuple[str, int]]:
        """The fields with a value in them, and their places."""
        return [(name, n) for name, value in fields.items() if (n := self.place(value)) is not None]

    def body(self, body: bytes) -> Callable[[Sequence[str]], bytes]:
        """What makes a body of other values; ids are ASCII."""
        split = self._split(body.decode("latin-1"))
        pieces, numbers = [piece.encode("latin-1") for piece in split.pieces], split.numbers
        if not numbers:
            return lambda values: body
        if len(set(numbers)) == 1:  # a stream without calls has but one id, in every event
            between = pieces[0::2]
            return lambda values: values[numbers[0]].encode().join(between)

        def fill(values: Sequence[str]) -> bytes:
            made, new = pieces.copy(), [value.encode() for value in values]
            made[1::2] = [new[n] for n in numbers]
            return b"".join(made)

        return fill

    def _split(self, text: str) -> _Text:
        pieces = self._any.split(text)
        return _Text(pieces, [self._places[value] for value in pieces[1::2]])


def _filled(text: _Text, values: Sequence[str]) -> str:
    pieces = text.pieces.copy()
    pieces[1::2] = [values[n] for n in text.numbers]
    return "".join(pieces)
