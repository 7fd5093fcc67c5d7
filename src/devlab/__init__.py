"""Learn where tensors live: a course on PyTorch devices."""
