"""What `explain` found, and how it reads."""

from dataclasses import dataclass, field

from devlab.panel import Panel, escape, prose


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
        names = max((len(one.name) for one in self.met), default=0)
        whats = max((len(one.what) for one in self.met), default=0)
        places = max((len(one.device) for one in self.met), default=0)
        for position, one in enumerate(self.met):
            label = "tensors met" if position == 0 else ""
            sign = "→" if one.culprit else " "
            line = f"{sign} {one.name:<{names}}  {one.what:<{whats}}  {one.device:<{places}}  {one.origin}"
            lines.append(f"  {label:<12}{line}".rstrip())
        lines += [f"  {label:<12}{value}" for label, value in rows[1:]]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the explanation as HTML."""
        cell = 'style="text-align:left;vertical-align:top;padding:0 1em 0 0"'
        rows = self.rows()
        parts = [f"<p><strong>devlab explains: {prose(self.headline)}</strong></p>"]
        if self.met:
            heads = ("", "tensor", "what", "device", "where from")
            head = "".join(f'<th scope="col" {cell}>{label}</th>' for label in heads)
            body = "".join(
                f"<tr><td {cell}>{'→' if one.culprit else ''}</td>"
                f"<td {cell}><code>{escape(one.name)}</code></td>"
                f"<td {cell}>{escape(one.what)}</td><td {cell}>{escape(one.device)}</td>"
                f"<td {cell}>{escape(one.origin)}</td></tr>"
                for one in self.met
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        code = {"failed in", "culprit", "change"}
        body = "".join(
            f'<tr><th scope="row" {cell}>{label}</th><td {cell}>'
            + (f"<code>{escape(value)}</code>" if label in code else prose(value))
            + "</td></tr>"
            for label, value in rows
        )
        parts.append(f"<table><tbody>{body}</tbody></table>")
        return "".join(parts)

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"
