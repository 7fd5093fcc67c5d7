"""Programs of other people's packages train on `sim` as on the CPU.

The packages are no part of the course, so each test is skipped where its package is not installed. These were
tried with torch 2.13.0+cpu: transformers 5.24.0, torch_geometric 2.8.1, gpytorch 1.15.2.
"""

import copy

import pytest
import torch

NOT_HERE = "{} is not installed here, and the course does not need it: pip install {}"


def package(name: str, title: str):
    """Return a package's module, or skip the test with the reason."""
    return pytest.importorskip(name, reason=NOT_HERE.format(title, title))


def trained(model, inputs: dict, loss_of, device, steps: int = 3) -> list[float]:
    """Return the losses of a few steps of a copy of the model on a device."""
    model = copy.deepcopy(model).to(device)
    inputs = {name: value.to(device) for name, value in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def same_losses(model, inputs: dict, loss_of, device, rounding: float = 0) -> None:
    """Train on the device and on the CPU: the losses are the same up to `rounding`, and fall."""
    here = trained(model, inputs, loss_of, "cpu")
    there = trained(model, inputs, loss_of, device)
    assert there == pytest.approx(here, rel=rounding, abs=0)
    assert there[-1] < there[0]


@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_language_models_of_transformers(name, device):
    """Two architectures, from a configuration, without dropout; one batch is padded."""
    transformers = package("transformers", "transformers")
    if name == "Llama":
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = transformers.LlamaConfig(vocab_size=64, **sizes, num_key_value_heads=2, pad_token_id=0)
    else:
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
        sizes |= {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
        config = transformers.GPT2Config(vocab_size=64, **sizes)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    tokens = torch.randint(1, 64, (2, 12))
    mask = torch.ones_like(tokens)
    mask[1, 8:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}
    # For the CPU PyTorch has a kernel for the whole of attention; on `sim` products and a softmax make it up,
    # and round in another order.
    same_losses(model, inputs, lambda model, inputs: model(**inputs).loss, device, rounding=1e-5)


def test_generation_with_transformers(device):
    """Greedy decoding with a cache gives the tokens that it gives on the CPU."""
    transformers = package("transformers", "transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=64, **sizes)).eval()
    prompt = torch.randint(3, 64, (2, 5))
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    here = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    model, prompt = model.to(device), prompt.to(device)
    there = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    assert there.device == device
    assert there.tolist() == here.tolist()


def test_a_graph_network_of_torch_geometric(device):
    """Messages along edges, scattered and summed, over a batch of two graphs."""
    package("torch_geometric", "torch_geometric")
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(4, 8), GATConv(8, 8, heads=2, concat=False)
            self.last = torch.nn.Linear(8, 2)

        def forward(self, x, edges, graph):
            x = self.first(x, edges).relu()
            return self.last(global_mean_pool(self.second(x, edges).relu(), graph))

    torch.manual_seed(0)
    graphs = [Data(x=torch.randn(n, 4), edge_index=torch.randint(0, n, (2, 3 * n))) for n in (6, 9)]
    batch = Batch.from_data_list(graphs)
    inputs = {"x": batch.x, "edges": batch.edge_index, "graph": batch.batch}
    answers = {"answers": torch.tensor([0, 1])}

    def loss_of(model, inputs):
        made = model(*(inputs[name] for name in ("x", "edges", "graph")))
        return torch.nn.functional.cross_entropy(made, inputs["answers"])

    same_losses(Network(), inputs | answers, loss_of, device)


def test_a_gaussian_process_of_gpytorch(device):
    """Cholesky's factors, their derivatives, and the logarithm of a determinant."""
    gpytorch = package("gpytorch", "gpytorch")

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y):
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x)

    def loss_of(model, inputs):
        model.set_train_data(inputs["x"], inputs["y"], strict=False)
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        return -likelihood(model(inputs["x"]), inputs["y"])

    same_losses(Process(x, y), {"x": x, "y": y}, loss_of, device)
