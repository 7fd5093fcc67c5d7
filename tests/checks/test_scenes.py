"""Scenes: what differs first is the finding, and a known mistake has its name, on any device."""

import json

import pytest
import torch

from devlab import sim
from devlab.checks import known, scenes
from devlab.checks.exercise import Exercise
from devlab.checks.expect import Mismatch
from devlab.checks.seen import Seen, most, must
from devlab.checks.trial import Skip, Trial
from factory import mistakes

CPU = torch.device("cpu")


@pytest.fixture
def double(tmp_path, monkeypatch):
    """An exercise of one scene, whose table is in a folder of the test's own."""
    made = Exercise("double", "00", "double(x)", ("D1",), ("twice", "x + x"))

    @scenes.scene(made, lambda x: 2 * x, "twice as much", asked="each number twice")
    def twice(trial):
        for seed in trial.seeds:
            yield "the result", trial.call(trial.randn(5, seed=seed)), 1e-6

    monkeypatch.setattr(scenes.Scene, "table", tmp_path / "double.json")
    yield made
    known.read.cache_clear()


def play(exercise: Exercise, answer, **changes) -> None:
    """Play the exercise's scene with an answer."""
    exercise.rows[0].judge(Trial(answer, exercise.signature, CPU, **changes))


def refusal(exercise: Exercise, answer, **changes) -> Mismatch:
    """Return what the scene finds in an answer."""
    with pytest.raises(Mismatch) as found:
        play(exercise, answer, **changes)
    return found.value


def know(exercise: Exercise, **answers) -> None:
    """Write the table in which answers are known by their names."""
    words, places = list(answers), {}
    one = exercise.rows[-1].scene
    for number, answer in enumerate(answers.values()):
        place, _, right, slip, later = mistakes.find_entry(one, Trial(answer, exercise.signature, CPU))
        places.setdefault(place, {"ours": right, "known": []})["known"].append([number, slip, later])
    text = mistakes.write({"words": words, "rows": {one.label: places}})
    one.table.write_text(text, encoding="utf-8")
    known.read.cache_clear()


def test_right_answers_are_seen_to_do_the_same(double):
    """Whatever road they take."""
    for answer in (lambda x: x + x, lambda x: x * 2, lambda x: torch.stack([x, x]).sum(0)):
        play(double, answer)


def test_the_first_difference_says_what_the_task_asks(double):
    """In the task's words, with the number that differs most."""
    found = refusal(double, lambda x: x)
    assert found.headline == "the values of the result are wrong"
    assert found.expected.startswith("each number twice: ")


def test_a_known_mistake_has_its_name_whatever_its_code(double):
    """The look-up goes by what is seen, also for the numbers that a grader asks for."""
    know(double, squared=lambda x: x * x, tripled=lambda x: 3 * x)
    assert refusal(double, lambda x: x.square()).headline == "squared"
    assert refusal(double, lambda x: x + x + x, seed=5).headline == "tripled"
    assert refusal(double, lambda x: x + 1).headline == "the values of the result are wrong"


def test_two_mistakes_that_look_alike_at_first_are_told_apart_later(double):
    """By what the scene sees after the first difference."""
    calls = []

    def once(x):
        calls.append(x)
        return x if len(calls) % 3 == 1 else 2 * x

    know(double, never=lambda x: x, once=once)
    calls.clear()
    assert refusal(double, lambda x: x.clone()).headline == "never"


def test_a_mistake_keeps_its_name_under_another_rounding(double):
    """A share of its distance from what is right belongs to the device."""
    know(double, squared=lambda x: x * x)
    assert refusal(double, lambda x: x * x * (1 + 1e-4)).headline == "squared"


def test_what_is_inf_is_like_nothing_finite(double):
    """A mistake that divides by zero does not lend its name to others."""
    know(double, divided=lambda x: x / 0, shared=lambda x: x + 3)
    assert refusal(double, lambda x: 3 + x).headline == "shared"
    assert refusal(double, lambda x: 5 + x).headline == "the values of the result are wrong"


def test_a_table_of_other_inputs_says_nothing(double, monkeypatch):
    """Our own answer's print must match, or the general words stand."""
    know(double, squared=lambda x: x * x)
    kept = json.loads(double.rows[0].scene.table.read_text(encoding="utf-8"))
    kept["rows"]["twice as much"]["the result#0"]["ours"][4][0] += 1
    double.rows[0].scene.table.write_text(json.dumps(kept), encoding="utf-8")
    known.read.cache_clear()
    assert refusal(double, lambda x: x * x).headline == "the values of the result are wrong"


def test_a_broken_table_does_not_break_a_verdict(double):
    """The finding is there without a name, too."""
    double.rows[0].scene.table.write_text('{"words": 3, "rows": 4}', encoding="utf-8")
    assert refusal(double, lambda x: x * x).headline == "the values of the result are wrong"


def test_what_must_be_has_no_place_among_the_others():
    """An answer may give more cause to look than ours does."""
    made = Exercise("count", "00", "count(n)", ("D1",), ("one", "two"))

    @scenes.scene(made, lambda n: [0], "counts")
    def counts(trial):
        for number in trial.call(2):
            yield must(number >= 0, "a number is negative")
        yield "the end", True

    play(made, lambda n: [0, 1, 2])
    assert refusal(made, lambda n: [0, -1]).headline == "a number is negative"


def test_a_limit_gives_way_where_ours_needs_more():
    """How often the host must wait may depend on the device."""
    compare = scenes.compare
    compare(most("{} waits", 3, 1), most("{} waits", 3, 1))
    with pytest.raises(Mismatch, match="4 waits"):
        compare(most("{} waits", 4, 1), most("{} waits", 3, 1))


def test_a_scene_that_stops_here_refuses_what_it_saw_before():
    """What one device can tell is judged; the rest is skipped, in words."""
    made = Exercise("both", "00", "both(x)", ("D1",), ("one", "two"))

    @scenes.scene(made, lambda x: x, "stays")
    def stays(trial):
        yield "the result", trial.call(trial.randn(2))
        raise Skip("it needs two")

    with pytest.raises(Skip, match="it needs two"):
        play(made, lambda x: x.clone())
    assert "wrong" in refusal(made, lambda x: x + 1).headline


def test_what_follows_from_the_answer_is_judged_by_what_follows():
    """`right` stands in the place of what ours showed."""
    scenes.compare(Seen("the loss", 2.0, 1e-6, right=2.0), Seen("the loss", 3.0, 1e-6))
    with pytest.raises(Mismatch, match="the loss is wrong"):
        scenes.compare(Seen("the loss", 2.0, 1e-6, right=2.5), Seen("the loss", 2.0, 1e-6))


@pytest.mark.parametrize("name", mistakes.tables())
def test_tables_are_current(name):
    """Each was made from the judgement and the bank as they are: `make notebooks` makes it anew."""
    table = mistakes.tables()[name]
    assert mistakes.is_current(table), f"run make notebooks: {table.name} was made from another scene or bank"


def test_no_table_without_scenes():
    """A table whose exercise has no scene any more is never read."""
    tables = set(mistakes.tables().values())
    folder = next(iter(tables)).parents[1]
    assert set(folder.rglob("*.json")) == tables


def test_words_about_a_device_that_is_not_here_are_not_said():
    """A verdict on one accelerator names no second one, and shows no placeholder."""
    devices = torch.device("sim", 0), torch.device("sim", 1)
    trial, alone = (Trial(abs, "abs(x)", CPU, devices[:count]) for count in (2, 1))
    assert known.fill_devices("it is on {second}", trial) == "it is on sim:1"
    assert known.fill_devices("it is on {second}", alone) == ""
    assert known.fill_devices("it is on {device}, a {kind}", alone) == "it is on sim:0, a sim"


def test_our_answer_is_played_anew_under_other_rules():
    """What a scene gives may depend on the rules of another device than the one that is judged."""
    made = Exercise("hold", "00", "hold(x)", ("D1",), ("one", "two"))

    @scenes.scene(made, lambda x: x, "holds")
    def holds(trial):
        for dtype in [torch.float32, torch.float64][: 1 + (sim.following() != "mps")]:
            yield "the result", trial.call(trial.randn(2, dtype=dtype))

    here = torch.device("sim", 0)
    with sim.rules("mps"):
        play(made, lambda x: x.clone(), others=(here,))
    play(made, lambda x: x.clone(), others=(here,))
