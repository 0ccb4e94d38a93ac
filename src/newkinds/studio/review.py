"""Questions that are most worth a person's answer, one at a time: `newkinds.editing.review`, as pages ask for them.

Looking for questions takes seconds on a large run, so it is done beside, on a copy of the state.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from newkinds.editing import EditedRun, Question, answer_question, review_questions
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.run_record import COUNT, TEXT, Items, Keys, OrNull
from newkinds.studio.live_run import LiveRun
from newkinds.studio.operations import Desk, Outdated, checked

logger = logging.getLogger(__name__)

QUEUED = 50
"""Questions that are looked for at a time."""
RENEWED, FEW = 10, 3
"""Answers after which new questions are looked for; and questions left at which they are, in any case."""
SENT = 5
"""Questions that a page gets at a time."""


@dataclass(frozen=True)
class Asked:
    """A question that a page can answer."""

    id: int
    question: Question
    samples_of: str | None

    @property
    def about(self) -> tuple[object, ...]:
        """The same question, asked again, is about the same."""
        return self.samples_of, self.question.topic, self.question.category, self.question.samples


class Review:
    """The queue of a studio, shared by its pages."""

    def __init__(self, live: LiveRun, desk: Desk) -> None:
        self._live, self._desk = live, desk
        self._lock = threading.RLock()
        self._asked: dict[int, Asked] = {}
        self._queue: list[Asked] = []
        self._answers: dict[int, int] = {}
        self._skipped: set[tuple[object, ...]] = set()
        self._looked_at: tuple[int, str | None] | None = None
        self._n_since = 0
        self._is_looking = False
        self._reader: EditedRun | None = None

    def questions(self) -> dict[str, Any]:
        """The next questions; and how many were answered, how many are left in the queue."""
        with self._live.held() as run, self._lock:
            done = {entry.n for entry in run.done}
            answered = {i for i, n in self._answers.items() if n in done}
            undone = [self._asked[i] for i, n in self._answers.items() if n not in done]
            waiting = [*undone, *(asked for asked in self._queue if asked.id not in self._answers)]
            waiting = [asked for asked in waiting if self._is_open(run, asked)]
            if self._wants_more(len(waiting)):
                self._is_looking = True
                threading.Thread(target=self._look, daemon=True).start()
            return {
                "n": self._live.n,
                "questions": [self._shown(asked) for asked in waiting[:SENT]],
                "answered": len(answered),
                "left": len(waiting),
                "looking": self._is_looking,
            }

    def answer(self, content: dict[str, Any]) -> dict[str, Any]:
        """Write an answer, and return what it changed."""
        shape = Keys({"question": COUNT, "answer": TEXT}, {"kind": OrNull(TEXT), "odd": Items(COUNT)})
        checked(shape, content)
        return self._desk.change(lambda run: self._answer(run, content))

    def skip(self, content: dict[str, Any]) -> dict[str, Any]:
        """Do not ask a question again."""
        checked(Keys({"question": COUNT}), content)
        with self._lock:
            self._skipped.add(self._find(content["question"]).about)
        return {}

    def _answer(self, run: EditedRun, content: dict[str, Any]) -> Entry:
        asked = self._find(content["question"])
        answers: dict[str, Callable[[], str | int]] = {
            "yes": lambda: "yes",
            "no": lambda: "no",
            "new": lambda: "new",
            "kind": lambda: self._desk.id(content.get("kind") or ""),
        }
        if content["answer"] not in answers:
            raise InputError(f"answers are {', '.join(answers)}; got {content['answer']!r}")
        if not self._is_open(run, asked):
            raise Outdated("this question is settled already")
        answer: Any = answers[content["answer"]]()
        entry = answer_question(run, asked.question, answer, odd=content.get("odd", ()))
        with self._lock:
            self._answers[asked.id] = entry.n
            self._n_since += 1
        return entry

    def _find(self, question: int) -> Asked:
        if question not in self._asked:
            raise Outdated("this question is settled already")
        return self._asked[question]

    def _is_open(self, run: EditedRun, asked: Asked) -> bool:
        """Whether a question still makes sense as things stand."""
        if asked.samples_of != run.record.get("samples"):
            return False
        question, samples = asked.question, run.samples
        ids = {category["id"] for category in run.record["categories"]}
        sides = {"merge": question.alternatives[:1]}.get(question.topic, (question.category,))
        rows = list(question.samples)
        return (
            asked.about not in self._skipped
            and {question.category, *sides} <= ids
            and bool((samples.categories[rows] == sides[0]).all())
            and not bool(samples.confirmed[rows].all())
        )

    def _wants_more(self, n_waiting: int) -> bool:
        now = self._live.n, self._live.edited.version
        if self._is_looking or self._looked_at == now:
            return False
        is_other = self._looked_at is None or self._looked_at[1] != now[1]
        return is_other or n_waiting <= FEW or self._n_since >= RENEWED

    def _look(self) -> None:
        """Look for questions, on a copy of the state, and tell the pages."""
        try:
            if self._reader is None:
                self._reader = EditedRun(self._live.folder)
            else:
                self._reader.refresh()
            reader = self._reader
            state, samples_of = (len(reader.entries), reader.version), reader.record.get("samples")
            questions = review_questions(reader, QUEUED)
        except Exception:  # a page that waits has to hear of it
            logger.exception("no questions could be found")
            questions, state, samples_of = [], (self._live.n, self._live.edited.version), None
        with self._lock:
            first = len(self._asked)
            self._queue = [Asked(first + i, question, samples_of) for i, question in enumerate(questions)]
            self._asked |= {asked.id: asked for asked in self._queue}
            self._looked_at, self._n_since, self._is_looking = state, 0, False
        self._live.tell("review", {"n": state[0]})

    def _shown(self, asked: Asked) -> dict[str, Any]:
        """See `Question` in web/src/studio/server.ts."""
        question = asked.question
        ids = {category["id"] for category in self._live.edited.record["categories"]}
        return {
            "id": asked.id,
            "topic": question.topic,
            "slot": self._live.slot(question.category),
            "rows": list(question.samples),
            "typical": list(question.typical),
            "options": [self._live.slot(i) for i in question.alternatives if i in ids],
        }
