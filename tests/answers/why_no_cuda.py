"""Answers to why_no_cuda."""

import os

import torch
from bank import right, wrong


@right
def one_after_another(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    if facts["visible"] in ("", "-1"):
        return "hidden"
    return "available"


@right
def as_a_table(facts):
    causes = [
        ("cpu-only build", facts["build"] != "cuda"),
        ("no GPU", not facts["gpu"]),
        ("no driver", not facts["driver"]),
        ("hidden", facts["visible"] is not None and facts["visible"] in {"", "-1"}),
    ]
    return next((cause for cause, holds in causes if holds), "available")


@right
def by_patterns(facts):
    match facts:
        case {"build": "cpu"}:
            return "cpu-only build"
        case {"gpu": False}:
            return "no GPU"
        case {"driver": False}:
            return "no driver"
        case {"visible": "" | "-1"}:
            return "hidden"
    return "available"


@right
def from_the_last_to_the_first(facts):
    answer = "available"
    if facts["visible"] == "" or facts["visible"] == "-1":
        answer = "hidden"
    if not facts["driver"]:
        answer = "no driver"
    if not facts["gpu"]:
        answer = "no GPU"
    if facts["build"] == "cpu":
        answer = "cpu-only build"
    return answer


@right
def by_get(facts):
    visible = facts.get("visible")
    hidden = visible is not None and visible.strip() in ("", "-1")
    return (
        "cpu-only build"
        if facts.get("build") == "cpu"
        else "no GPU"
        if not facts.get("gpu")
        else "no driver"
        if not facts.get("driver")
        else "hidden"
        if hidden
        else "available"
    )


@right
def by_the_first_entry(facts):
    first = "0" if facts["visible"] is None else facts["visible"].split(",")[0]
    if facts["build"] != "cuda":
        return "cpu-only build"
    if facts["gpu"] is False:
        return "no GPU"
    if facts["driver"] is False:
        return "no driver"
    return "hidden" if first in ("", "-1") else "available"


@wrong("CUDA_VISIBLE_DEVICES that is not set (None) hides nothing", row="available, when none holds")
def none_hides(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    if not facts["visible"] or facts["visible"] == "-1":
        return "hidden"
    return "available"


@wrong('CUDA_VISIBLE_DEVICES = "" hides every GPU', row="each cause, when it is the only one")
def the_empty_text_forgotten(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] == "-1" else "available"


@wrong('CUDA_VISIBLE_DEVICES = "" hides every GPU', row="each cause, when it is the only one")
def the_empty_text_counts_as_none(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    if facts["visible"] and facts["visible"] == "-1":
        return "hidden"
    return "available"


@wrong('CUDA_VISIBLE_DEVICES = "-1" hides every GPU', row="what hides the GPUs, and what does not")
def minus_one_forgotten(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] == "" else "available"


@wrong('CUDA_VISIBLE_DEVICES = "0" hides nothing', row="what hides the GPUs, and what does not")
def zero_hides(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] in ("", "-1", "0") else "available"


@wrong("hides nothing", row="what hides the GPUs, and what does not")
def anything_hides(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "available" if facts["visible"] is None else "hidden"


@wrong('"no driver" holds, but "no GPU" comes before it', row="the first cause, when several hold")
def driver_before_gpu(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["driver"]:
        return "no driver"
    if not facts["gpu"]:
        return "no GPU"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong('"no GPU" holds, but "cpu-only build" comes before it', row="the first cause, when several hold")
def gpu_before_build(facts):
    if not facts["gpu"]:
        return "no GPU"
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong('"hidden" holds, but', row="the first cause, when several hold")
def hidden_first(facts):
    if facts["visible"] in ("", "-1"):
        return "hidden"
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    return "no driver" if not facts["driver"] else "available"


@wrong("holds, but", row="the first cause, when several hold")
def the_last_that_holds(facts):
    answer = "available"
    if facts["build"] == "cpu":
        answer = "cpu-only build"
    if not facts["gpu"]:
        answer = "no GPU"
    if not facts["driver"]:
        answer = "no driver"
    if facts["visible"] in ("", "-1"):
        answer = "hidden"
    return answer


@wrong("the answer is a list, not a str", row="each cause, when it is the only one")
def all_causes(facts):
    causes = {
        "cpu-only build": facts["build"] == "cpu",
        "no GPU": not facts["gpu"],
        "no driver": not facts["driver"],
        "hidden": facts["visible"] in ("", "-1"),
    }
    return [cause for cause, holds in causes.items() if holds] or "available"


@wrong("the answer is None", row="available, when none holds")
def available_forgotten(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    if facts["visible"] in ("", "-1"):
        return "hidden"
    return None


@wrong('"CPU-only build" is none of the five answers', row="each cause, when it is the only one")
def other_words(facts):
    if facts["build"] == "cpu":
        return "CPU-only build"
    if not facts["gpu"]:
        return "No GPU"
    if not facts["driver"]:
        return "No driver"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong('which is not a reason for "cpu-only build"', row="each cause, when it is the only one")
def build_the_wrong_way_round(facts):
    if facts["build"]:
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong("your code raised", row="each cause, when it is the only one")
def reads_the_text_as_a_number(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if int(facts["visible"]) < 0 else "available"


@wrong("your code raised KeyError", row="each cause, when it is the only one")
def other_keys(facts):
    if facts["torch"] == "cpu":
        return "cpu-only build"
    return "available"


@wrong("the answer is None", row="each cause, when it is the only one")
def prints(facts):
    print("cpu-only build" if facts["build"] == "cpu" else "available")


@wrong("the answer is a bool, not a str", row="each cause, when it is the only one")
def only_whether(facts):
    return facts["build"] == "cuda" and facts["gpu"] and facts["driver"]


@wrong("the input `facts` was changed", row="each cause, when it is the only one")
def takes_them_out(facts):
    if facts.pop("build") == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong('`facts["build"]` is', row="each cause, when it is the only one")
def looks_at_this_machine(facts):
    return "available"


@wrong('`facts["driver"]` is False, and the answer is "available"', row="each cause, when it is the only one")
def driver_forgotten(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong("hides nothing", row="what hides the GPUs, and what does not")
def a_minus_one_anywhere(facts):
    hidden = "-1" in (facts["visible"] or "")
    return one_after_another({**facts, "visible": "-1" if hidden else facts["visible"]})


@wrong('`facts["gpu"]` is False, and the answer is "available"', row="each cause, when it is the only one")
def asks_this_machine(facts):
    return "available" if torch.cuda.is_available() else one_after_another(facts)


@wrong('CUDA_VISIBLE_DEVICES = "0,-1" hides nothing', row="what hides the GPUs, and what does not")
def a_hidden_one_among_others(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    listed = [""] if facts["visible"] is None else facts["visible"].split(",")
    return "hidden" if "-1" in listed or facts["visible"] == "" else "available"


@right
def elifs(facts):
    if facts["build"] == "cpu":
        why = "cpu-only build"
    elif facts["gpu"] is False:
        why = "no GPU"
    elif facts["driver"] is False:
        why = "no driver"
    elif facts["visible"] == "" or facts["visible"] == "-1":
        why = "hidden"
    else:
        why = "available"
    return why


@right
def matched(facts):
    match facts:
        case {"build": "cpu"}:
            return "cpu-only build"
        case {"gpu": False}:
            return "no GPU"
        case {"driver": False}:
            return "no driver"
        case {"visible": "" | "-1"}:
            return "hidden"
    return "available"


@wrong('"hidden" holds, but "cpu-only build" comes before it', row="the first cause, when several hold")
def last_wins(facts):
    why = "available"
    if facts["build"] == "cpu":
        why = "cpu-only build"
    if not facts["gpu"]:
        why = "no GPU"
    if not facts["driver"]:
        why = "no driver"
    if facts["visible"] in ("", "-1"):
        why = "hidden"
    return why


@wrong('"No GPU" is none of the five answers', row="each cause, when it is the only one")
def capital(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "No GPU"
    if not facts["driver"]:
        return "No driver"
    return "hidden" if facts["visible"] in ("", "-1") else "available"


@wrong('CUDA_VISIBLE_DEVICES = "0,1" hides nothing', row="what hides the GPUs, and what does not")
def starts_with_minus(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    return "hidden" if facts["visible"] is not None and (not facts["visible"].isdigit()) else "available"


@wrong('"hidden" holds, but "no driver" comes before it', row="the first cause, when several hold")
def hidden_before_driver(facts):
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if facts["visible"] in ("", "-1"):
        return "hidden"
    return "available" if facts["driver"] else "no driver"


@right
def by_the_keys_in_their_order(facts):
    build, gpu, driver, visible = (facts[key] for key in ("build", "gpu", "driver", "visible"))
    holds = {
        "cpu-only build": build == "cpu",
        "no GPU": not gpu,
        "no driver": not driver,
        "hidden": visible in ("", "-1"),
        "available": True,
    }
    return [cause for cause in holds if holds[cause]][0]  # noqa: RUF015


@wrong("""is 'cpu', and the answer is "available\"""", row="whatever the order of the facts")
def by_their_places(facts):
    build, gpu, driver, visible = facts.values()
    if build == "cpu":
        return "cpu-only build"
    if not gpu:
        return "no GPU"
    if not driver:
        return "no driver"
    return "hidden" if visible in ("", "-1") else "available"


@wrong("holds, but", row="whatever the order of the facts")
def asks_in_the_order_of_the_dict(facts):
    causes = {"build": "cpu-only build", "gpu": "no GPU", "driver": "no driver"}
    for key, value in facts.items():
        if value in (False, "cpu"):
            return causes[key]
        if key == "visible" and value in ("", "-1"):
            return "hidden"
    return "available"


@wrong('CUDA_VISIBLE_DEVICES = "1,-1,0" hides nothing', row="what hides the GPUs, and what does not")
def a_minus_one_in_the_middle(facts):
    visible = facts["visible"]
    middle = visible is not None and ",-1," in visible
    return one_after_another({**facts, "visible": "-1" if middle else visible})


@wrong("of this machine (pretended) was read", row="what hides the GPUs, and what does not")
def reads_the_variable_where_it_is_set(facts):
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", facts["visible"])
    return one_after_another({**facts, "visible": visible})


@wrong('`facts["driver"]` is False, and the answer is "available"', row="each cause, when it is the only one")
def a_driver_that_works_here(facts):
    return one_after_another({**facts, "driver": facts["driver"] or torch.cuda.is_available()})


@wrong(
    '`facts["build"]` is \'cpu\', and the answer is "available"', row="each cause, when it is the only one"
)
def the_build_that_is_here(facts):
    return one_after_another({**facts, "build": "cuda" if torch.version.cuda else facts["build"]})


@right
def one_in_another(facts):
    if facts["build"] == "cuda":
        if facts["gpu"]:
            if facts["driver"]:
                return "hidden" if facts["visible"] in ["", "-1"] else "available"
            return "no driver"
        return "no GPU"
    return "cpu-only build"


@right
def by_named_parameters(facts):
    def why(build, gpu, driver, visible):
        causes = [(build == "cpu", "cpu-only build"), (not gpu, "no GPU"), (not driver, "no driver")]
        causes += [(visible in ("", "-1"), "hidden"), (True, "available")]
        return next(words for holds, words in causes if holds)

    return why(**facts)


@right
def by_the_place_of_the_first_that_holds(facts):
    build, gpu, driver, visible = map(facts.get, ("build", "gpu", "driver", "visible"))
    holds = [build == "cpu", not gpu, not driver, visible in {"", "-1"}, True]
    return ("cpu-only build", "no GPU", "no driver", "hidden", "available")[holds.index(True)]
