"""The fused steps of LSTM and GRU, which PyTorch picks on every accelerator and has no CPU kernel for.

Each is written as the formula that it fuses, and each backward as what autograd makes of that formula.
"""

import torch


def _lstm_step(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    enter, forget, fresh, leave = gates.chunk(4, 1)
    enter, forget, fresh, leave = enter.sigmoid(), forget.sigmoid(), fresh.tanh(), leave.sigmoid()
    following = forget * cell + enter * fresh
    return leave * following.tanh(), following, torch.cat((enter, forget, fresh, leave), 1)


def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    """Return (hidden state, cell state, activated gates) of one LSTM step."""
    return _lstm_step(input_gates, hidden_gates, cell, input_bias, hidden_bias)


def lstm_cell_backward(grad_hidden, grad_cell, cell, following, workspace, has_bias):
    """Return the gradients of (gates, cell state, bias) of one LSTM step."""
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    enter, forget, fresh, leave = workspace.chunk(4, 1)
    squashed = following.tanh()
    from_hidden = torch.zeros_like(cell) if grad_hidden is None else grad_hidden
    inner = from_hidden * leave * (1 - squashed * squashed)
    if grad_cell is not None:
        inner = inner + grad_cell
    gates = torch.cat(
        (
            inner * fresh * enter * (1 - enter),
            inner * cell * forget * (1 - forget),
            inner * enter * (1 - fresh * fresh),
            from_hidden * squashed * leave * (1 - leave),
        ),
        1,
    )
    return gates, inner * forget, gates.sum(0) if has_bias else None


def gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """Return (hidden state, what the backward needs) of one GRU step."""
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    in_reset, in_update, in_fresh = input_gates.chunk(3, 1)
    of_reset, of_update, of_fresh = hidden_gates.chunk(3, 1)
    reset, update = (in_reset + of_reset).sigmoid(), (in_update + of_update).sigmoid()
    fresh = (in_fresh + reset * of_fresh).tanh()
    following = fresh + update * (hidden - fresh)
    return following, torch.cat((reset, update, fresh, hidden, of_fresh), 1)


def gru_cell_backward(grad, workspace, has_bias):
    """Return the gradients of (input gates, hidden gates, hidden state, input bias, hidden bias)."""
    reset, update, fresh, hidden, of_fresh = workspace.chunk(5, 1)
    to_fresh = grad * (1 - update) * (1 - fresh * fresh)
    to_update = grad * (hidden - fresh) * update * (1 - update)
    to_reset = to_fresh * of_fresh * reset * (1 - reset)
    input_gates = torch.cat((to_reset, to_update, to_fresh), 1)
    hidden_gates = torch.cat((to_reset, to_update, to_fresh * reset), 1)
    if has_bias:
        return input_gates, hidden_gates, grad * update, input_gates.sum(0), hidden_gates.sum(0)
    return input_gates, hidden_gates, grad * update, None, None


FUSED = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
