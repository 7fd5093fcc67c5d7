"""What the lessons say about PyTorch, held against the PyTorch that is installed."""

import datetime
import re
from importlib import import_module
from pathlib import Path

import jupytext
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).resolve().parents[1]
LESSONS = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "source" / "lessons").glob("*.py"))}
PAGES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
TASKS = {
    f"task {path.stem}": path.read_text("utf-8")
    for path in sorted((ROOT / "source" / "exercises").glob("*.py"))
}
# Names that are there with other builds only, or that the text calls names of other builds.
ELSEWHERE = {"torch._something"}


def cell(lesson: str, start: str) -> str:
    """Return the code of the one cell of a lesson that begins so."""
    cells = jupytext.reads(LESSONS[lesson], fmt="py:percent").cells
    (source,) = [one.source for one in cells if one.cell_type == "code" and one.source.startswith(start)]
    return source


def find(name: str):
    """Return what a dotted name of PyTorch means; raise AttributeError where there is none."""
    found, path = torch, "torch"
    for part in name.split(".")[1:]:
        path += "." + part
        if not hasattr(found, part):
            try:
                import_module(path)
            except ImportError:
                raise AttributeError(path) from None
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("text", [*LESSONS.items(), *PAGES.items(), *TASKS.items()], ids=lambda one: one[0])
def test_every_name_of_pytorch_exists(text):
    """A text names no function of PyTorch that the PyTorch of the course lacks."""
    from devlab import sim

    sim.enable()
    missing = []
    for name in sorted(set(re.findall(r"\btorch(?:\.[A-Za-z_]\w*)+", text[1])) - ELSEWHERE):
        try:
            find(name)
        except AttributeError:
            missing.append(name)
    assert not missing


@pytest.mark.parametrize("text", [*LESSONS.items(), *TASKS.items()], ids=lambda one: one[0])
def test_a_link_to_a_lesson_calls_it_by_its_title(text):
    """A link that begins with a lesson's number goes on with that lesson's title."""
    for words, target in re.findall(
        r"\[(\d\d [^\]]+)\]\([\w./]*?(\d\d_\w+)\.ipynb\)", text[1].replace("\n# ", " ")
    ):
        assert LESSONS[target].partition("\n# # ")[2].partition("\n")[0].startswith(words)


def test_moved_parameters_stay_the_same_objects_unless_pytorch_is_told_otherwise():
    """Lessons 05, 10 and 11: the default keeps the object. A flag changes that, so nothing is promised."""
    from devlab import sim

    sim.enable()
    flag = "set_overwrite_module_params_on_conversion"
    assert "PyTorch does not promise" in " ".join(LESSONS["05_buffers"].replace("\n# ", " ").split())
    kept = []
    for overwrite in (False, True):
        getattr(torch.__future__, flag)(overwrite)
        try:
            layer = nn.Linear(2, 2)
            weight = layer.weight
            kept.append(layer.to("sim").weight is weight)
        finally:
            getattr(torch.__future__, flag)(False)
    assert kept == [True, False]


def test_the_lessons_measurement_restores_the_mode_of_each_part():
    """Lesson 11: a batch norm that was frozen inside a training model is frozen afterwards."""
    made = {"torch": torch}
    for start, end in (("def moved", "def watched"), ("def errors_by_digit", "validation_loader =")):
        exec(cell("11_training_step", start).partition(end)[0], made)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 10), nn.Dropout())
    model[0].eval()
    with torch.no_grad():
        model[1].bias[4] = 100.0  # every sample is taken for a 4
    labels = torch.tensor([4, 4, 7, 9])
    counts = made["errors_by_digit"](model, DataLoader(TensorDataset(torch.ones(4, 3), labels), 2))
    assert [part.training for part in model.modules()] == [True, False, True, True]
    assert counts.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]


def test_the_whole_program_goes_on_where_another_device_has_saved(tmp_path, monkeypatch, capsys):
    """Lesson 11: its `main`, begun on the CPU, continued on an accelerator, and finished on the CPU."""
    import devlab
    from devlab import sim

    sim.enable()
    made = {"torch": torch, "nn": nn, "F": nn.functional, "Path": Path, "devlab": devlab}
    made |= {"DataLoader": DataLoader, "TensorDataset": TensorDataset}
    made["CosineAnnealingLR"] = torch.optim.lr_scheduler.CosineAnnealingLR
    exec(cell("11_training_step", "def main(folder"), made)
    for epochs, place in enumerate((None, torch.device("sim"), None), start=1):
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda place=place, **asked: place)
        made["main"](tmp_path, epochs)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["epoch 1", "epoch 2", "epoch 3"]


def test_the_example_of_an_out_of_memory_message_adds_up():
    """Lesson 08: free and used make up the capacity, and PyTorch's share fits into what the process uses."""
    said = LESSONS["08_memory"].partition("# torch.OutOfMemoryError: CUDA")[2].partition("# ```")[0]
    unit = {"MiB": 1 / 1024, "GiB": 1.0}
    sizes = [float(number) * unit[name] for number, name in re.findall(r"([\d.]+) (MiB|GiB)", said)]
    wanted, capacity, free, used, allocated, cached = sizes
    assert capacity == pytest.approx(free + used, abs=0.011)
    assert allocated + cached < used
    assert free < wanted < cached  # so the free memory is in pieces, as the lesson concludes


def test_the_timeout_of_gloo_is_half_an_hour():
    """Lesson 09 names it beside that of NCCL, which a build for the CPU does not tell."""
    from torch.distributed.constants import default_pg_timeout

    assert default_pg_timeout == datetime.timedelta(minutes=30)
    text = re.sub(r"\n# +", " ", LESSONS["09_several_devices"])
    assert "30 minutes for gloo and 10 for NCCL" in text


def test_a_smaller_step_after_a_failed_one_needs_an_empty_cache():
    """Lesson 08: without `empty_cache` the cached segment is cut, and the second part finds no room."""
    import devlab
    from devlab import sim

    sim.enable()
    made = {"torch": torch, "device": torch.device("sim", 0), "MIB": 1 << 20}
    exec(cell("08_memory", "def step(batch)").partition("def again_inside")[0], made)
    fitted = []
    for emptied in (True, False):
        torch.sim.empty_cache()
        with devlab.memory_limit(made["device"], 1 << 30):
            with pytest.raises(torch.OutOfMemoryError):
                made["step"](3)
            if emptied:
                torch.sim.empty_cache()
            try:
                made["step"](2)
                fitted.append(emptied)
            except torch.OutOfMemoryError:
                pass
    torch.sim.empty_cache()
    assert fitted == [True]


@pytest.mark.parametrize("visible", ["1", "2,0", " 2, 0", "", "-1", "0,-1,1", "1,7,0", "7"])
def test_the_model_of_visible_devices_is_pytorchs(monkeypatch, visible):
    """Lesson 02's function shows the GPUs that PyTorch's own reading of the variable shows, of three."""
    made = {}
    exec(cell("02_cuda", "def visible_gpus").partition("gpus = [")[0], made)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    read = torch.cuda._parse_visible_devices()
    there = [index < 3 for index in read]
    shown = read[: there.index(False)] if False in there else read
    assert made["visible_gpus"]([0, 1, 2], visible) == shown
