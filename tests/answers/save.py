"""Answers to save."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import torch
from bank import right, wrong


@right
def plain(model, path):
    torch.save(model.state_dict(), path)


@right
def from_the_cpu(model, path):
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, path)


@right
def into_an_open_file(model, path):
    with open(path, "wb") as file:
        torch.save(OrderedDict(model.state_dict()), file)


@right
def by_way_of_memory(model, path):
    buffer = io.BytesIO()
    torch.save({name: t.detach().clone() for name, t in model.state_dict().items()}, buffer)
    Path(path).write_bytes(buffer.getvalue())


@right
def renamed_when_whole(model, path):
    part = Path(str(path) + ".part")
    torch.save(model.state_dict(), part)
    part.replace(path)
    return path


@wrong("the file holds the model itself", row="the file holds the state_dict, all of it")
def the_whole_model(model, path):
    torch.save(model, path)


@wrong("a dict with the state_dict in it", row="the file holds the state_dict, all of it")
def in_a_dict(model, path):
    torch.save({"model": model.state_dict(), "epoch": 3}, path)


@wrong("the model was moved to cpu", row="the model is untouched, where it was")
def moves_the_model_home(model, path):
    torch.save(model.cpu().state_dict(), path)


@wrong("the buffers are not in the file", row="the file holds the state_dict, all of it")
def parameters_alone(model, path):
    torch.save({name: p.detach() for name, p in model.named_parameters()}, path)


@wrong("table is in the file as well", row="the file holds the state_dict, all of it")
def with_every_buffer(model, path):
    state = dict(model.state_dict()) | dict(model.named_buffers())
    torch.save(state, path)


@wrong("there is no file at the path", row="the file holds the state_dict, all of it")
def forgets_to_write(model, path):
    return model.state_dict()


@wrong("there is no file at the path", row="the file holds the state_dict, all of it")
def adds_an_ending(model, path):
    torch.save(model.state_dict(), str(path) + ".pth")


@wrong("torch.load cannot read the file", row="the file holds the state_dict, all of it")
def a_text(model, path):
    Path(path).write_text(str(model.state_dict()))


@wrong("the file", row="the file holds the state_dict, all of it")
def by_pickle(model, path):
    with open(path, "wb") as file:
        pickle.dump({name: t.cpu().numpy() for name, t in model.state_dict().items()}, file)


@wrong("is a list, not a state_dict", row="the file holds the state_dict, all of it")
def a_list_of_parameters(model, path):
    torch.save([parameter.detach() for parameter in model.parameters()], path)


@wrong("in the file is torch.float16", row="the file holds the state_dict, all of it")
def in_half(model, path):
    torch.save({name: t.half() for name, t in model.state_dict().items()}, path)


@wrong("the model's mode was changed", row="the model is untouched, where it was")
def leaves_evaluation_mode(model, path):
    model.eval()
    torch.save(model.state_dict(), path)


@wrong("the file still holds the first model", row="a second file replaces the first")
def never_twice(model, path):
    if not Path(path).exists():
        torch.save(model.state_dict(), path)


@wrong("the parameters were frozen", row="the model is untouched, where it was")
def frozen(model, path):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    torch.save(model.state_dict(), path)


@wrong("the model was moved to", row="the model is untouched, where it was")
def there_and_back(model, path):
    home = next(model.parameters()).device
    torch.save(model.cpu().state_dict(), path)
    model.to(home)


@wrong("there is no file at the path", row="the file holds the state_dict, all of it")
def always_as_pt(model, path):
    torch.save(model.state_dict(), Path(path).with_suffix(".pt"))


@wrong("head.weight is not in the file", row="the file holds the state_dict, all of it")
def each_tensor_once(model, path):
    state = model.state_dict()
    names = [name for name, _ in [*model.named_parameters(), *model.named_buffers()] if name in state]
    torch.save({name: state[name] for name in names}, path)


@wrong(
    "scale in the file is torch.float32, not torch.float16", row="the file holds the state_dict, all of it"
)
def all_in_float32(model, path):
    state = model.state_dict()
    torch.save({name: one.float() if one.is_floating_point() else one for name, one in state.items()}, path)


@wrong("became torch.float64", row="the model is untouched, where it was")
def doubles_the_model(model, path):
    torch.save(model.state_dict(), path)
    model.double()


@wrong("torch.load cannot read the file", row="a second file replaces the first")
def over_the_old_file(model, path):
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        torch.save(model.state_dict(), file)


@wrong("the file is written in pickle protocol 4", row="the file holds the state_dict, all of it")
def another_protocol(model, path):
    torch.save(model.state_dict(), path, pickle_protocol=4)


@wrong("the file holds NumPy arrays", row="the file holds the state_dict, all of it")
def as_arrays(model, path):
    torch.save({k: v.cpu().numpy() for k, v in model.state_dict().items()}, path)


@wrong("the names in the file begin with", row="the file holds the state_dict, all of it")
def with_a_prefix(model, path):
    torch.save({"module." + k: v for k, v in model.state_dict().items()}, path)


@wrong("the second file was written behind the first", row="a second file replaces the first")
def behind_the_first(model, path):
    with open(path, "ab") as f:
        torch.save(model.state_dict(), f)


@right
def cloned(model, path):
    torch.save({k: v.detach().cpu().clone() for k, v in model.state_dict().items()}, path)


@right
def with_the_default_protocol(model, path):
    torch.save(obj=model.state_dict(), f=path, pickle_protocol=2)


@wrong("`body.1.training` of the model was changed", row="the model is untouched, where it was")
def evaluates_and_puts_one_mode_back(model, path):
    was = model.training
    model.eval()
    torch.save(model.state_dict(), path)
    model.train(was)


@wrong("of the model was changed", row="the model is untouched, where it was")
def wipes_gradients(model, path):
    model.zero_grad()
    torch.save(model.state_dict(), path)


@wrong("`saved_to` of the model was changed", row="the model is untouched, where it was")
def remembers_the_file(model, path):
    torch.save(model.state_dict(), path)
    model.saved_to = str(path)


@wrong("more20000 is in the file as well", row="a second file replaces the first")
def into_what_was_there(model, path):
    state = torch.load(path, weights_only=True) if os.path.exists(path) else {}
    state.update(model.state_dict())
    torch.save(state, path)
