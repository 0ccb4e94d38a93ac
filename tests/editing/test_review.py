"""The review queue: what is asked, in which order, and what answers do."""

from pathlib import Path

import pytest

from newkinds import InputError
from newkinds.editing import EditedRun, Question, answer_question, question_about, refit, review_questions


def test_questions_are_ordered_by_what_they_are_worth(run: Path) -> None:
    questions = review_questions(EditedRun(run), 10)
    assert 0 < len(questions) <= 10
    assert [question.worth for question in questions] == sorted((q.worth for q in questions), reverse=True)
    for question in questions:
        assert question.category not in question.alternatives
        assert not set(question.samples) & set(question.typical)


def test_the_same_run_asks_the_same(run: Path) -> None:
    assert review_questions(EditedRun(run), 5) == review_questions(EditedRun(run), 5)


def test_answers_become_operations(run: Path) -> None:
    edited = EditedRun(run)
    question = question_about(edited, int(edited.members("new-1")[0]))
    assert answer_question(edited, question, "yes").op == "confirm"
    assert edited.samples.confirmed[[*question.samples, *question.typical]].all()
    question = question_about(edited, int(edited.members("new-2")[0]))
    assert answer_question(edited, question, question.alternatives[0]).op == "move"
    assert edited.samples.categories[question.samples[0]] == question.alternatives[0]
    question = question_about(edited, int(edited.members("new-3")[0]))
    answer_question(edited, question, "new", name="bee")
    assert edited.members("bee").tolist() == list(question.samples)
    with pytest.raises(InputError, match="where does it belong"):
        answer_question(edited, question, "no")


def test_two_categories_are_one_or_not(run: Path) -> None:
    edited = EditedRun(run)
    first, second = (tuple(edited.members(name)[:3].tolist()) for name in ("new-1", "new-2"))
    question = Question("merge", 3, second, first, (4,), 1.0)
    with pytest.raises(InputError, match='answer "yes" or "no"'):
        answer_question(edited, question, "new")
    answer_question(edited, question, "no", odd=[first[0]])
    assert edited.samples.confirmed[[*first[1:], *second]].all()
    assert not edited.samples.confirmed[first[0]]
    answer_question(edited, question, "yes")
    assert [category["name"] for category in edited.record["categories"]][3:] == ["new-1", "new-3"]


def test_what_was_answered_is_not_asked_again(run: Path) -> None:
    edited = EditedRun(run)
    asked: set[tuple[int, ...]] = set()
    for _ in range(3):
        for question in review_questions(edited, 4):
            assert question.samples not in asked
            asked.add(question.samples)
            if question.topic != "merge" and question.category in {c["id"] for c in edited.record["categories"]}:
                answer_question(edited, question, "yes")
        refit(edited)


def test_a_yes_says_nothing_of_samples_that_went_elsewhere_meanwhile(run: Path) -> None:
    edited, other = EditedRun(run), EditedRun(run)
    question = question_about(edited, int(edited.members("new-1")[0]))
    moved = question.typical[0]
    new = other.create([moved]).outcome["born"][0]["id"]
    other.undo()
    other.split("new-1", parts=[[moved], [row for row in other.members("new-1").tolist() if row != moved]])
    answer_question(edited, question, "yes")
    assert edited.samples.confirmed[[*question.samples, *question.typical[1:]]].all()
    assert not edited.samples.confirmed[moved]
    assert new not in edited.samples.categories  # undone ids are never used again
