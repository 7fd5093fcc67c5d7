"""One visual language for every picture: a colour for the host, for each device, for copies and for waits.

The colours are Okabe and Ito's, darkened or lightened until each has a contrast of at least 3 to 1 on white
and on JupyterLab's dark grey (#111111); tests/test_palette.py computes it. Source of the set: Okabe & Ito,
"Color Universal Design", 2008, chosen so that colour-blind readers can tell its members apart. No picture
says anything by colour alone: waits are hatched or low, copies of middle height, and names stand beside.
"""

HOST = "#3a86c8"
DEVICES = ("#15985c", "#b4609c")
COPY = "#d9601a"
WAIT = "#808080"
LETTERS = "#111111"  # on any of these colours, in either theme


def of(device: object) -> str:
    """Return the colour of a device, given as `torch.device` or by name; the second of a kind has its own.

    >>> of("cpu") == HOST, of("cuda:0") == of("sim"), of("sim:0") == of("sim:1")
    (True, True, False)
    """
    kind, _, index = str(device).partition(":")
    if kind in ("cpu", "host"):
        return HOST
    return DEVICES[int(index or 0) % len(DEVICES)] if (index or "0").isdigit() else DEVICES[0]


def tint(colour: str, share: float = 0.25) -> str:
    """Return a colour of which only a share covers what is behind, so that words on it can be read.

    >>> tint(HOST)
    '#3a86c840'
    """
    return f"{colour}{round(share * 255):02x}"
