"""The small real data set that comes with the course: 1797 handwritten digits.

Where they are from and under which licence is told in `README.md`, beside the file.
"""

from pathlib import Path

import numpy
import torch

FILE = Path(__file__).with_name("digits.npz")


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1797 images of handwritten digits and their labels, on the CPU, in the order of the original.

    The images are float32 of shape (1797, 8, 8), from 0 for paper to 1 for ink in steps of 1/16; the labels
    are int64 of shape (1797,), from 0 to 9. Each call returns new tensors, on the CPU whatever the default
    device. From the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak,
    UCI Machine Learning Repository, 1998), CC BY 4.0.

    >>> images, labels = digits()
    >>> images.shape, images.dtype, labels.shape
    (torch.Size([1797, 8, 8]), torch.float32, torch.Size([1797]))
    >>> labels[:5].tolist()
    [0, 1, 2, 3, 4]
    """
    with numpy.load(FILE, allow_pickle=False) as held:
        images, labels = held["images"], held["labels"]
    # In NumPy to the end: what PyTorch makes anew would go to the default device.
    return torch.from_numpy(images.astype("float32") / 16), torch.from_numpy(labels.astype("int64"))
