"""Plans that were made before, with room for new ids: an equal reply is not encoded twice. Pure.

Every response has names and ids of its own, and nothing else in a plan differs between two answers of one
reply. A form is a plan with those places left blank. Before a form is used, it has proved itself: filled with
the ids of another plan it equals that plan. What a dialect makes of ids in some other way has no form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from pytest_agentguard._core import limits
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Mark, Note, Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply

_MARK_BYTES = 100  # about what a form keeps for a mark
_Fill = Callable[[Sequence[str]], str]
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
        self._body = blanks.of_body(made.body)
        self._marks = [(n, m, f) for n, m in enumerate(made.marks) if (f := blanks.of(m.key))]
        self._spoken = [
            (n, at, blanks.of(key) or _same(key), blanks.of(said) or _same(said))
            for n, (at, key, said) in enumerate(made.spoken)
            if blanks.of(key) or blanks.of(said)
        ]
        self._notes = [
            (at, note.kind, note.fields, [(k, f) for k, v in note.fields.items() if (f := blanks.of(v))])
            for at, note in made.notes
        ]

    def filled(self, setting: Setting) -> Plan:
        """The plan with the names of ``setting`` and new ids."""
        ids = setting.ids
        values = [setting.stream, setting.request, setting.lane]
        values += [getattr(ids, kind)() for kind in self._kinds]
        made = self._made
        marks, spoken = made.marks, made.spoken
        if self._marks:
            all_marks = list(marks)
            for n, mark, fill in self._marks:
                all_marks[n] = Mark(mark.at, mark.what, fill(values), mark.piece)
            marks = tuple(all_marks)
        if self._spoken:
            all_spoken = list(spoken)
            for n, at, key, said in self._spoken:
                all_spoken[n] = at, key(values), said(values)
            spoken = tuple(all_spoken)
        notes = []
        for at, kind, fields, fills in self._notes:
            fields = fields.copy()
            for name, fill in fills:
                fields[name] = fill(values)
            notes.append((at, Note(kind, fields)))
        return Plan(
            made.status,
            made.headers,
            self._body(values),
            marks,
            made.stop,
            made.moves,
            made.chunks,
            made.framing,
            made.end,
            tuple(notes),
            made.complete_at,
            made.fault_at,
            spoken,
        )


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


class _Blanks:
    """Finds the places of values."""

    def __init__(self, values: Sequence[str]) -> None:
        self._numbers = {value: n for n, value in enumerate(values)}
        self._any = re.compile(f"({'|'.join(map(re.escape, values))})")

    def of(self, text: object) -> _Fill | None:
        """What makes ``text`` of other values; None where no value is in it."""
        pieces, numbers = self._split(text) if isinstance(text, str) else ([], [])
        if not numbers:
            return None

        def fill(values: Sequence[str]) -> str:
            made = pieces.copy()
            made[1::2] = [values[n] for n in numbers]
            return "".join(made)

        return fill

    def of_body(self, body: bytes) -> Callable[[Sequence[str]], bytes]:
        """The same for the bytes of a body; ids are ASCII."""
        texts, numbers = self._split(body.decode("latin-1"))
        pieces = [text.encode("latin-1") for text in texts]
        between = pieces[0::2]

        def fill(values: Sequence[str]) -> bytes:
            if len(set(numbers)) == 1:  # a stream without calls has but one id, in every event
                return values[numbers[0]].encode().join(between)
            made = pieces.copy()
            made[1::2] = [values[n].encode() for n in numbers]
            return b"".join(made)

        return fill if numbers else lambda values: body

    def _split(self, text: str) -> tuple[list[str], list[int]]:
        pieces = self._any.split(text)
        return pieces, [self._numbers[value] for value in pieces[1::2]]


def _same(text: str) -> _Fill:
    return lambda values: text
