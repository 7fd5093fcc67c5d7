"""What the makers document of real hardware: peaks from data sheets, none of them measured here.

Each figure was compared in November 2026 with at least two independent pages that quote the document which
`source` names; the documents themselves could not be opened then. NVIDIA gives the bandwidth of PCIe and
NVLink for both directions together; a transfer has one, so here both stand at half. Peaks in 16 bits are
without sparsity, with sums in 32 bits; the data sheet of the H100 names twice as much (1979), with it. An
empty field is what the maker does not publish.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """One accelerator, as its maker describes it: GB, GB/s and TFLOP/s."""

    name: str
    memory: str
    bandwidth: float
    rate: float | None
    half_rate: float | None
    from_host: str
    between: str
    source: str
    transfer_source: str = ""  # where `from_host` is from, if another document has it


CHIPS = (
    Chip(
        "NVIDIA T4",
        memory="16 GB",
        bandwidth=300,
        rate=8.1,
        half_rate=65,
        from_host="16 GB/s (PCIe 3.0)",
        between="by PCIe",
        source="NVIDIA's data sheet *T4 Tensor Core GPU*, March 2019 (its product brief says up to 320 GB/s)",
    ),
    Chip(
        "GeForce RTX 4090",
        memory="24 GB",
        bandwidth=1008,
        rate=82.6,
        half_rate=165,
        from_host="32 GB/s (PCIe 4.0)",
        between="by PCIe",
        source="NVIDIA's white paper *Ada GPU Architecture*, appendix A, 2022",
        transfer_source=" (for PCIe 4.0 the figure of NVIDIA's data sheet of the A100)",
    ),
    Chip(
        "NVIDIA H100 SXM",
        memory="80 GB",
        bandwidth=3350,
        rate=67,
        half_rate=989,
        from_host="64 GB/s (PCIe 5.0)",
        between="450 GB/s (NVLink)",
        source="NVIDIA's data sheet *H100 Tensor Core GPU*, 2023",
    ),
    Chip(
        "Apple M4 Max",
        memory="up to 128 GB, shared with the CPU",
        bandwidth=546,
        rate=None,
        half_rate=None,
        from_host="one memory for both",
        between="one GPU",
        source="Apple's press release *Apple introduces M4 Pro and M4 Max*, October 2024 (the bandwidth with "
        "40 GPU cores)",
    ),
)
