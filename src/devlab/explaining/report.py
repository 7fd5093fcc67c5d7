"""What `explain` found, and how it reads."""

from dataclasses import dataclass, field

from devlab.panel import Column, Panel, Table, escape, prose

_CELL = 'style="text-align:left;vertical-align:top;padding:0 1em 0 0"'
_CODE = ("failed in", "culprit", "change")


@dataclass(frozen=True)
class Met:
    """One tensor of the operation that failed, as the table shows it."""

    name: str
    what: str
    device: str
    origin: str
    culprit: bool = False


@dataclass(eq=False)
class Explanation(Panel):
    """An error explained: `culprit`, `origin` and `mend` as text; `known` is False without a culprit."""

    headline: str
    known: bool = False
    culprit: str = ""
    origin: str = ""
    aliases: list[str] = field(default_factory=list)
    operation: str = ""
    where: str = ""
    met: list[Met] = field(default_factory=list)
    mend: str = ""
    mend_where: str = ""
    mend_before: bool = False
    otherwise: str = ""
    note: str = ""

    def rows(self) -> list[tuple[str, str]]:
        """Return the labelled lines, without the table of tensors."""
        rows = [("failed in", f"{self.operation}   ({self.where})" if self.where else self.operation)]
        if self.culprit:
            also = f"   (also {'; '.join(self.aliases)})" if self.aliases else ""
            rows += [("culprit", self.culprit + also), ("where from", self.origin)]
        if self.mend:
            rows.append(("change", self.mend))
            if self.mend_where:
                rows.append(("at", ("before " if self.mend_before else "") + self.mend_where))
        rows += [("or", self.otherwise), ("note", self.note)]
        return [(label, value) for label, value in rows if value]

    def text(self) -> str:
        """Return the explanation as labelled lines."""
        lines = [f"devlab explains: {self.headline}"]
        rows = self.rows()
        lines += [f"  {label:<12}{value}" for label, value in rows[:1]]
        met = [(f"{_sign(one)} {one.name}", one.what, one.device, one.origin) for one in self.met]
        for position, line in enumerate(Table([Column()] * 4, met).text().splitlines()):
            lines.append(f"  {'' if position else 'tensors met':<12}{line}")
        lines += [f"  {label:<12}{value}" for label, value in rows[1:]]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the explanation as HTML."""
        heads = (
            ("", str.strip),
            ("tensor", _code),
            ("what", escape),
            ("device", escape),
            ("where from", escape),
        )
        met = [(_sign(one), one.name, one.what, one.device, one.origin) for one in self.met]
        rows = [(label, (_code if label in _CODE else prose)(value)) for label, value in self.rows()]
        return (
            f"<p><strong>devlab explains: {prose(self.headline)}</strong></p>"
            + Table([Column(name, _CELL, html) for name, html in heads], met).html()
            + Table([Column(look=_CELL, labels=True), Column(look=_CELL, html=str)], rows).html()
        )

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"


def _sign(one: Met) -> str:
    return "→" if one.culprit else " "


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
