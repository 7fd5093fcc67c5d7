# ruff: noqa: D103, B905, RUF059 - learners write no docstrings
"""Part of a batch left behind: labels, masks, nested targets, a result of `.to` thrown away."""

from collections import namedtuple
from types import SimpleNamespace

import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("sim:0")


def loader():
    return DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 3, (8,))), batch_size=4)


@broken("labels", "part of the batch from loader()", "labels = labels.to(DEVICE)")
def labels_left_behind():
    model = nn.Linear(4, 3).to(DEVICE)
    for inputs, labels in loader():
        inputs = inputs.to(DEVICE)
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()


@broken("labels", "part of the batch", "labels = labels.to(device)")
def result_of_to_thrown_away():
    device = DEVICE
    model = nn.Linear(4, 3).to(device)
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader():
        inputs = inputs.to(device)
        labels.to(device)
        criterion(model(inputs), labels)


@broken("inputs", "part of the batch", "inputs = inputs.to(DEVICE)")
def inputs_left_behind():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(DEVICE)
    inputs, labels = next(iter(loader()))
    model(inputs)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids, padding):
        h = self.embed(ids)
        h, _ = self.attend(h, h, h, key_padding_mask=padding)
        return h.mean(1)


@broken("padding", "made in tokenizer", "torch.zeros(2, 6, dtype=torch.bool, device=DEVICE)")
def attention_mask_of_a_tokenizer():
    def tokenizer():
        return {"ids": torch.randint(0, 20, (2, 6)), "padding": torch.zeros(2, 6, dtype=torch.bool)}

    model = Classifier().to(DEVICE)
    batch = tokenizer()
    batch["ids"] = batch["ids"].to(DEVICE)
    model(batch["ids"], batch["padding"])


def detection_loss(predictions, targets):
    total = predictions.new_zeros(())
    for prediction, target in zip(predictions, targets):
        total = total + F.l1_loss(prediction, target["boxes"])
    return total


@broken('target["boxes"]', "targets", 'target["boxes"] = target["boxes"].to(predictions.device)')
def nested_targets():
    predictions = torch.rand(2, 3, 4, device=DEVICE)
    targets = [{"boxes": torch.rand(3, 4), "id": i} for i in range(2)]
    detection_loss(predictions, targets)


def loss_fn(pred, target):
    error = pred.squeeze(-1) - target
    return error.square().mean()


@broken("target", "part of the batch", "y = y.to(DEVICE)")
def label_under_another_name():
    model = nn.Linear(4, 1).to(DEVICE)
    for x, y in DataLoader(TensorDataset(torch.randn(4, 4), torch.randn(4))):
        loss_fn(model(x.to(DEVICE)), y)


@broken(
    "sample.weight",
    "attribute 'weight' of SimpleNamespace",
    "sample = SimpleNamespace(x=torch.randn(3, device=DEVICE), weight=torch.ones(3, device=DEVICE))",
)
def one_field_of_a_namespace():
    sample = SimpleNamespace(x=torch.randn(3, device=DEVICE), weight=torch.ones(3))
    (sample.x * sample.weight).sum()


Transition = namedtuple("Transition", "state action reward")


@broken("rewards", "made in", "rewards = torch.tensor([t.reward for t in memory], device=DEVICE)")
def rewards_of_a_replay_memory():
    memory = [Transition(torch.randn(4), 1, 0.5), Transition(torch.randn(4), 0, 1.0)]
    q = nn.Linear(4, 2).to(DEVICE)
    states = torch.stack([t.state for t in memory]).to(DEVICE)
    rewards = torch.tensor([t.reward for t in memory])
    best = q(states).max(1).values
    rewards + 0.9 * best


@broken("target", "made in", "edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]], device=DEVICE)")
def edges_of_a_graph():
    features = torch.randn(3, 4, device=DEVICE)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    source, target = edge_index
    torch.zeros_like(features).index_add_(0, target, features[source])


@broken(
    "mask", "an argument", 'arguments = {"x": x, "mask": torch.zeros(3, dtype=torch.bool, device=DEVICE)}'
)
def argument_of_a_callback():
    run_all([lambda x, mask: x.masked_fill(mask, 0.0)])


def run_all(callbacks):
    x = torch.randn(3, device=DEVICE)
    arguments = {"x": x, "mask": torch.zeros(3, dtype=torch.bool)}
    for callback in callbacks:
        callback(**arguments)
