// The live picture: one front end for every explorer. It is sent a view (controls, scene, words) and draws it;
// what a reader does is sent to Python, which answers with the next view. Nothing is computed here.

const SVG = "http://www.w3.org/2000/svg";
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const FAINT = 0.3;

function made(name, attributes = {}, parent = null) {
  const element = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

const unique = word => `devlab-${word}-${Math.random().toString(36).slice(2)}`;

const colour = name => (name === "ink" || name === undefined ? "currentColor" : name || "none");

// The one of several things whose place is nearest to a place.
function nearest(things, place, [x, y]) {
  const far = thing => Math.hypot(place(thing)[0] - x, place(thing)[1] - y);
  return things.reduce((one, other) => (far(other) < far(one) ? other : one));
}

// One shape: a group at the shape's place, so that a CSS transition moves it whatever is in it.
class Drawn {
  constructor(picture, shape) {
    this.picture = picture;
    this.group = made("svg:g", { "data-id": shape.id, class: "shape" });
    const parts = { Box: ["rect", "rect"], Words: ["text"], Path: ["path", "path", "path"] }[shape.kind];
    this.parts = parts.map(name => made("svg:" + name, {}, this.group));
    this.group.addEventListener("pointerenter", () => picture.point(this));
    this.group.addEventListener("pointerleave", () => picture.point(null));
    this.group.addEventListener("click", () => this.click());
    this.group.addEventListener("pointerdown", event => picture.grab(this, event));
  }

  update(shape) {
    this.shape = shape;
    this.over = null;
    this["draw" + shape.kind](shape);
    this.group.style.opacity = shape.faint ? FAINT : 1;
    this.group.classList.toggle("asks", Boolean(shape.asks || shape.stops || shape.writes));
    const role = shape.asks || shape.stops || shape.writes ? "button" : shape.says ? "img" : "presentation";
    this.group.setAttribute("role", role);
    this.group.style.pointerEvents = role === "presentation" ? "none" : "all";
    if (shape.says) this.group.setAttribute("aria-label", shape.says);
    else this.group.removeAttribute("aria-label");
    this.reach(1);
  }

  drawBox({ x, y, wide, high, fill = "", edge, thick = 1, hatched, round = 3 }) {
    [x, y] = this.place(x, y);
    const [box, hatch] = this.parts;
    for (const rect of this.parts) {
      rect.style.width = Math.max(0, wide) + "px";
      rect.style.height = Math.max(0, high) + "px";
      rect.setAttribute("rx", round);
    }
    box.style.fill = colour(fill);
    box.style.stroke = colour(edge);
    box.style.strokeWidth = thick;
    hatch.setAttribute("fill", hatched ? `url(#${this.picture.hatch})` : "none");
  }

  drawWords({ x, y, words, size = 13, anchor = "start", bold, mono, quiet, colour: ink }) {
    this.place(x, y);
    const [text] = this.parts;
    if (text.textContent !== words) text.textContent = words;
    text.setAttribute("dy", "0.35em");
    text.style.fontSize = size + "px";
    text.style.textAnchor = anchor;
    text.style.fontWeight = bold ? 600 : 400;
    text.style.fill = colour(ink);
    text.classList.toggle("mono", Boolean(mono));
    text.classList.toggle("quiet", Boolean(quiet));
  }

  drawPath({ points, head = "", fill = "", edge, thick = 1.5, dashed, flows }) {
    this.place(0, 0);
    const [line, end, reach] = this.parts;
    // As CSS the way of a line moves from the old to the new; where a browser cannot, the attribute jumps.
    for (const [path, way] of [[line, points], [end, head], [reach, points]]) {
      path.setAttribute("d", way);
      if (CSS.supports("d", 'path("M0 0")')) path.style.d = way ? `path("${way}")` : "none";
    }
    line.style.cssText += `;fill:${colour(fill)};stroke:${colour(edge)};stroke-width:${thick};`;
    line.style.strokeDasharray = flows ? "0 12" : dashed ? "5 4" : "none";
    line.style.strokeLinecap = flows ? "round" : "butt";
    end.style.fill = colour(edge);
    reach.style.cssText += ";fill:none;stroke:transparent;stroke-width:14;"; // easy to hit
  }

  place(x, y) {
    this.at = [x, y];
    this.group.style.transform = `translate(${x}px, ${y}px)`;
    return this.at;
  }

  // Show the shape as it is when a share of the playing time has gone.
  reach(share) {
    const { during, comes, goes = 2, flows, kind, wide } = this.shape;
    if (!during) return;
    const [begin, end] = during;
    const done = share >= end ? 1 : Math.max(0, (share - begin) / Math.max(end - begin, 1e-6));
    if (flows) this.parts[0].style.strokeDashoffset = -flows * done;
    if (comes) {
      const [x, y] = this.at;
      const move = `translate(${x - comes[0] * (1 - done)}px, ${y - comes[1] * (1 - done)}px)`;
      this.group.style.transform = move;
    } else if (kind === "Box") {
      for (const rect of this.parts) rect.style.width = Math.max(0, wide * done) + "px";
      this.group.style.visibility = done > 0 ? "visible" : "hidden";
    } else {
      this.group.style.visibility = share >= begin ? "visible" : "hidden";
    }
    if (goes < 2) this.group.style.visibility = share >= begin && share < goes ? "visible" : "hidden";
  }

  // Let the reader write in the place of a line: Enter asks for what was written, Escape leaves it as it was.
  write() {
    if (!this.shape.writes) return;
    const { frame, ask } = this.picture;
    const [field, lines, number] = this.shape.writes;
    const input = made("input", { class: "line", "aria-label": `line ${number + 1}` }, frame);
    const [box, whole] = [this.group.getBoundingClientRect(), frame.getBoundingClientRect()];
    input.value = lines[number] ?? "";
    input.style.left = box.left - whole.left + "px";
    input.style.top = box.top - whole.top - 5 + "px";
    const end = asks => {
      const wanted = asks && input.value !== (lines[number] ?? "");
      if (!input.isConnected) return;
      input.remove();
      this.group.focus();
      if (wanted) ask({ set: { [field]: Object.assign([...lines], { [number]: input.value }) } });
    };
    input.addEventListener("blur", () => end(true));
    input.addEventListener("keydown", event => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "Escape") end(event.key === "Enter");
    });
    input.focus();
    input.select();
  }

  click() {
    if (this.dragged) this.dragged = false;
    else if (this.shape.asks) this.picture.ask(this.shape.asks);
    else this.write();
  }

  // The stop that lies nearest to a place; along stops, the height of the pointer does not matter.
  nearest(x, y) {
    return nearest(this.shape.stops, stop => [stop.x, this.shape.along ? y : stop.y], [x, y]);
  }

  key(event) {
    const stops = this.shape.stops;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (stops && step) {
      const now = stops.indexOf(this.over ?? this.nearest(...this.middle()));
      const next = stops[Math.min(stops.length - 1, Math.max(0, now + step))];
      if (this.shape.carried) this.carry(next);
      else if (next !== stops[now]) this.picture.ask(next.asks);
      return true;
    }
    if (event.key === "Escape" && this.over) {
      this.carry(null);
      return true;
    }
    if (event.key === "F2" && this.shape.writes) {
      this.write();
      return true;
    }
    if (event.key === "Enter" || event.key === " ") {
      this.dragged = false;
      if (this.over?.asks) this.picture.ask(this.over.asks);
      else this.click();
      return true;
    }
    return false;
  }

  // Hold the shape over a stop, or at its own place again; nothing is asked for.
  carry(stop) {
    const [x, y] = this.at;
    const [middle_x, middle_y] = this.middle();
    const [to_x, to_y] = stop ? [x + stop.x - middle_x, y + stop.y - middle_y] : [x, y];
    const says = stop?.says || this.shape.says;
    this.over = stop;
    this.group.style.transform = `translate(${to_x}px, ${to_y}px)`;
    this.group.setAttribute("aria-label", says);
    this.picture.word(says);
  }

  // The point of the shape that is nearest to a place.
  closest(place) {
    const { kind, wide = 0, high = 0 } = this.shape;
    const size = kind === "Box" ? [wide, high] : [0, 0];
    return this.at.map((least, axis) => Math.min(Math.max(place[axis], least), least + size[axis]));
  }

  middle() {
    const { kind, wide = 0, high = 0 } = this.shape;
    return kind === "Box" ? [this.at[0] + wide / 2, this.at[1] + high / 2] : this.at;
  }
}

class Picture {
  constructor(parent, ask) {
    this.ask = ask;
    this.drawn = new Map();
    this.hatch = unique("hatch");
    this.frame = made("div", { class: "frame" }, parent);
    this.svg = made("svg:svg", { role: "group", preserveAspectRatio: "xMidYMin meet" }, this.frame);
    const size = { id: this.hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse" };
    const hatch = made("svg:pattern", size, made("svg:defs", {}, this.svg));
    hatch.setAttribute("patternTransform", "rotate(45)");
    made("svg:path", { d: "M0 0V6", stroke: "currentColor", "stroke-width": 1.6, opacity: 0.55 }, hatch);
    this.shapes = made("svg:g", {}, this.svg);
    this.tip = made("div", { class: "tip", "aria-hidden": "true" }, this.frame);
    this.tip.hidden = true;
    // Chromium lets Tab stop at each SVG element that listens to its focus itself.
    this.frame.addEventListener("focusin", event => this.tell(this.able.find(one => one.group === event.target)));
    this.svg.addEventListener("pointerleave", () => (this.pointer = null));
    this.frame.addEventListener("focusout", () => {
      for (const drawn of this.drawn.values()) if (drawn.over) drawn.carry(null);
      this.tell(null);
    });
    this.svg.addEventListener("keydown", event => this.key(event));
    this.svg.addEventListener("pointerdown", event => this.reachFor(event));
    this.svg.addEventListener("dblclick", () => this.pressed?.write()); // the picture has the pointer, not the shape
    this.svg.addEventListener("pointermove", event => this.drag(event));
    this.svg.addEventListener("transitionend", () => this.look());
    this.svg.addEventListener("pointerup", event => this.drop(event));
    this.svg.addEventListener("pointercancel", () => (this.held = null));
  }

  show(scene) {
    this.frame.hidden = !scene.shapes.length;
    this.svg.setAttribute("viewBox", `0 0 ${scene.wide} ${scene.high}`);
    // What has gone goes first: a shape that must change its place in the page jumps instead of moving.
    const there = new Set(scene.shapes.map(shape => shape.id));
    let lost = null;
    for (const [id, drawn] of this.drawn) {
      if (there.has(id)) continue;
      if (drawn.group === this.svg.getRootNode().activeElement) lost = drawn;
      this.drawn.delete(id);
      drawn.group.remove();
    }
    let last = null;
    for (const shape of scene.shapes) {
      let drawn = this.drawn.get(shape.id);
      if (drawn && drawn.shape.kind !== shape.kind) {
        drawn.group.remove();
        drawn = null;
      }
      if (!drawn) {
        drawn = new Drawn(this, shape);
        drawn.group.classList.add("new");
        this.drawn.set(shape.id, drawn);
        requestAnimationFrame(() => drawn.group.classList.remove("new"));
      }
      const follows = last ? last.nextSibling : this.shapes.firstChild;
      if (drawn.group !== follows) this.shapes.insertBefore(drawn.group, follows);
      last = drawn.group;
      drawn.update(shape);
      this.drawn.delete(shape.id); // the keys go from shape to shape in the order of the scene
      this.drawn.set(shape.id, drawn);
    }
    this.stopsOfTab(lost);
    if (this.told && !there.has(this.told.shape.id)) this.tell(null);
    else if (this.told) this.tell(this.told);
  }

  // One shape at a time takes the focus; the arrows go from shape to shape. Where a shape went with the focus,
  // the nearest gets it.
  stopsOfTab(lost) {
    const able = [...this.drawn.values()].filter(({ shape }) => shape.says || shape.asks || shape.stops);
    this.able = able;
    const now = lost && able.length
      ? nearest(able, drawn => drawn.closest(lost.middle()), lost.middle())
      : able.find(drawn => drawn.group === this.svg.getRootNode().activeElement);
    const first = now ?? able.find(({ shape }) => shape.stops) ?? able.find(({ shape }) => shape.asks) ?? able[0];
    for (const drawn of this.drawn.values()) {
      if (able.includes(drawn)) drawn.group.setAttribute("tabindex", drawn === first ? 0 : -1);
      else drawn.group.removeAttribute("tabindex");
    }
    if (lost) now?.group.focus();
  }

  key(event) {
    const drawn = this.able?.find(one => one.group === event.target);
    if (!drawn) return;
    this.pointer = null;
    let done = drawn.key(event);
    if (event.key === "Escape") this.word("");
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!done && step) {
      const there = this.able.filter(one => one === drawn || one.group.style.visibility !== "hidden");
      const next = there[(there.indexOf(drawn) + step + there.length) % there.length];
      drawn.group.setAttribute("tabindex", -1);
      next.group.setAttribute("tabindex", 0);
      next.group.focus();
      done = true;
    }
    if (done) event.preventDefault();
  }

  at(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = point.matrixTransform(this.svg.getScreenCTM().inverse());
    return [x, y];
  }

  // The handle whose ground is under a pointer.
  handle(event) {
    const [x, y] = this.at(event);
    const within = ([left, top, wide, high]) => x >= left && x <= left + wide && y >= top && y <= top + high;
    return this.able?.find(({ shape }) => shape.ground && within(shape.ground));
  }

  // A handle comes to the pointer from anywhere on its ground where no other shape is asked for something.
  reachFor(event) {
    const handle = event.target.closest(".asks") ? null : this.handle(event);
    if (!handle || event.button) return;
    this.grab(handle, event, handle.middle());
    this.held.moved = true;
    this.drag(event);
  }

  grab(drawn, event, from = this.at(event)) {
    this.pressed = drawn;
    if (!drawn.shape.stops || event.button) return;
    this.held = { drawn, from, shift: drawn.at.map((one, axis) => one - from[axis]), moved: false };
    this.svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    drawn.group.focus();
  }

  drag(event) {
    this.pointer = [event.clientX, event.clientY];
    if (!this.held) {
      this.svg.style.cursor = this.handle(event) ? "ew-resize" : "";
      return this.place();
    }
    const { drawn, from, shift } = this.held;
    const [x, y] = this.at(event);
    if (Math.hypot(x - from[0], y - from[1]) > 3) this.held.moved = true;
    if (!this.held.moved) return;
    drawn.group.classList.add("held");
    const middle = drawn.middle().map((one, axis) => one - drawn.at[axis]);
    const stop = drawn.nearest(x + shift[0] + middle[0], y + shift[1] + middle[1]);
    const along = drawn.shape.along;
    const [left, top] = along ? [stop.x - middle[0], stop.y - middle[1]] : [x + shift[0], y + shift[1]];
    drawn.group.style.transform = `translate(${left}px, ${top}px)`;
    const number = drawn.shape.stops.indexOf(stop);
    if (along && number !== this.held.number) this.ask(stop.asks);
    Object.assign(this.held, { stop, number });
    this.word(stop.says || drawn.shape.says);
  }

  drop(event) {
    if (!this.held) return;
    const { drawn, moved, stop } = this.held;
    this.held = null;
    this.svg.releasePointerCapture(event.pointerId);
    drawn.group.classList.remove("held");
    drawn.group.style.transform = `translate(${drawn.at[0]}px, ${drawn.at[1]}px)`;
    // The click that follows goes to the picture, which has the pointer, or to the shape, as browsers differ.
    if (!moved) drawn.click();
    else if (stop?.asks && !drawn.shape.along) this.ask(stop.asks);
    drawn.dragged = true;
    setTimeout(() => (drawn.dragged = false));
  }

  // What the keys carry may pass under the pointer, which says nothing then.
  point(drawn) {
    if (![...this.drawn.values()].some(one => one.over)) this.tell(drawn);
  }

  tell(drawn) {
    this.told = drawn;
    this.word(drawn?.shape.says ?? "");
  }

  word(words) {
    this.tip.textContent = words;
    this.tip.hidden = !words;
    this.place();
  }

  // The words stand at the pointer, or at what has the focus, and above or below what they explain.
  place() {
    const drawn = this.held?.drawn ?? this.told;
    if (this.tip.hidden || !drawn) return;
    const frame = this.frame.getBoundingClientRect(), shape = drawn.group.getBoundingClientRect();
    let [x, top, bottom] = [(shape.left + shape.right) / 2, shape.top, shape.bottom];
    if (this.pointer) {
      const [at, y] = this.pointer;
      x = at;
      if (bottom - top > 60) [top, bottom] = [y - 8, y + 18]; // too large to stay beside
    }
    const [wide, high] = [this.tip.offsetWidth, this.tip.offsetHeight];
    const above = top - frame.top - high - 6, below = bottom - frame.top + 6;
    this.tip.style.left = Math.max(0, Math.min(frame.width - wide, x - frame.left - wide / 2)) + "px";
    this.tip.style.top = (above < 0 && below + high <= frame.height ? below : above) + "px";
  }

  // Shapes come and go under a pointer that rests, and words must not outlive their shape.
  look() {
    if (!this.told || !this.pointer || this.held) return;
    const under = this.svg.getRootNode().elementFromPoint(...this.pointer)?.closest(".shape");
    if (under !== this.told.group) this.tell(this.able.find(one => one.group === under) ?? null);
    else this.place();
  }

  reach(share) {
    for (const drawn of this.drawn.values()) drawn.reach(share);
    this.look();
  }
}

// Play, pause, and a head to drag: the scene comes about once more, without a word to Python.
class Player {
  constructor(parent, picture, reached) {
    this.picture = picture;
    this.reached = reached; // called wherever the head comes to
    this.row = made("div", { class: "player" }, parent);
    this.button = made("button", { type: "button" }, this.row);
    this.head = made("input", { type: "range", min: 0, max: 1000, "aria-label": "how far it has come" }, this.row);
    this.button.addEventListener("click", () => (this.running ? this.pause() : this.play()));
    this.head.addEventListener("input", () => {
      this.pause();
      this.to(this.head.value / 1000);
    });
    this.share = 1;
    this.label();
  }

  show(scene) {
    // An explorer that can play keeps the place for it, so that nothing jumps.
    this.row.style.display = scene.seconds === null ? "none" : "";
    this.row.style.visibility = scene.seconds ? "" : "hidden";
    const fresh = scene.seconds && scene.take !== this.take;
    const waits = fresh && scene.guess;
    const starts = fresh && !waits && scene.take;
    this.seconds = scene.seconds;
    this.take = scene.take;
    if (waits || !scene.seconds) this.pause();
    if (starts && !STILL.matches) this.play(0);
    else if (!this.running) this.to(waits ? 0 : starts || !scene.seconds ? 1 : this.share);
  }

  play(from = this.share < 1 ? this.share : 0) {
    const begun = performance.now() - from * this.seconds * 1000;
    const run = (this.running = {});
    this.label();
    const step = now => {
      if (this.running !== run) return;
      this.to(Math.min(1, Math.max(0, (now - begun) / (this.seconds * 1000))));
      if (this.share < 1) requestAnimationFrame(step);
      else this.pause();
    };
    this.to(from);
    requestAnimationFrame(step);
  }

  pause() {
    this.running = null;
    this.label();
  }

  to(share) {
    this.share = share;
    this.head.value = Math.round(share * 1000);
    this.picture.frame.classList.toggle("playing", Boolean(this.running) || share < 1);
    this.picture.reach(share);
    this.reached();
  }

  label() {
    this.button.textContent = this.running ? "Pause" : "Play";
  }
}

// The controls, above the picture; they are made once, for an explorer keeps its controls.
class Desk {
  constructor(parent, ask) {
    this.ask = ask;
    this.row = made("div", { class: "desk" }, parent);
    this.made = new Map();
  }

  show(controls) {
    for (const control of controls) {
      const known = this.made.get(control.label) ?? this["make" + control.kind](control);
      this.made.set(control.label, known);
      known(control);
    }
  }

  labelled(control, input) {
    const group = made("span", { class: "control" }, this.row);
    input.id = unique("control");
    const label = made("label", { for: input.id });
    label.textContent = control.label;
    group.append(...(control.kind === "Switch" ? [input, label] : [label, input]));
    return input;
  }

  makeChoice(control) {
    const input = this.labelled(control, made("select"));
    for (const option of control.options) made("option", {}, input).textContent = option;
    input.addEventListener("change", () => this.ask({ set: { [control.field]: input.value } }));
    return ({ value }) => (input.value = value);
  }

  makeSwitch(control) {
    const input = this.labelled(control, made("input", { type: "checkbox" }));
    input.addEventListener("change", () => this.ask({ set: { [control.field]: input.checked } }));
    return ({ value }) => (input.checked = value);
  }

  makeNumber(control) {
    const bounds = { min: control.least ?? "", max: control.most ?? "", step: "least" in control ? 1 : "any" };
    const input = this.labelled(control, made("input", { type: "number", ...bounds }));
    const typed = () => (input.value === "" ? null : Number(input.value));
    input.addEventListener("change", () => this.ask({ set: { [control.field]: typed() } }));
    return ({ value, able = true, look = "" }) => {
      if (typed() !== value) input.value = value ?? "";
      input.disabled = !able;
      input.parentElement.dataset.look = look;
    };
  }

  makeAmount(control) {
    return this.makeNumber(control);
  }

  makeAction(control) {
    const button = made("button", { type: "button" }, this.row);
    button.textContent = control.label;
    button.addEventListener("click", () => this.ask({ press: control.label }));
    return ({ able, pressed, look }) => {
      button.disabled = !able;
      button.dataset.look = look;
      if (pressed !== undefined) button.setAttribute("aria-pressed", pressed);
    };
  }

  makeMeasurement(control) {
    const group = made("span", { class: "measure", role: "group", "aria-label": control.label }, this.row);
    const start = made("button", { type: "button" }, group);
    const stop = made("button", { type: "button" }, group);
    const done = made("progress", { max: 1, "aria-label": "share done" }, group);
    start.textContent = control.label;
    stop.textContent = "Stop";
    start.addEventListener("click", () => this.ask({ press: control.label }));
    stop.addEventListener("click", () => this.ask({ stop: control.label }));
    return ({ able, share }) => {
      start.disabled = !able;
      stop.disabled = able;
      done.value = share;
    };
  }
}

function render({ model, el }) {
  const root = made("section", { class: "devlab-explorer" }, el);
  const head = made("div", { class: "head" }, root);
  const title = made("div", { class: "title" }, head);
  const ask = message => model.send({ asks: message });
  const desk = new Desk(head, ask);
  const picture = new Picture(root, ask);
  const player = new Player(root, picture, () => tell(model.get("view")));
  const caption = made("p", { class: "caption" }, root);
  const spoken = made("div", { class: "spoken", role: "status" }, root);
  // JupyterLab has commands on plain keys: `x` cuts the cell. JupyterLab looks at a key after this element
  // had it; Notebook 7 looks before, and heeds the attribute. Ctrl+S and its like stay with them.
  const keep = event => {
    const plain = !event.ctrlKey && !event.altKey && !event.metaKey;
    event.target.toggleAttribute?.("data-lm-suppress-shortcuts", plain);
    if (plain && event.type === "keydown") event.stopPropagation();
  };
  for (const type of ["focusin", "keydown", "keyup"]) root.addEventListener(type, keep);

  const draw = () => {
    const view = model.get("view");
    if (!view.scene) return;
    root.setAttribute("aria-label", view.title);
    title.textContent = view.title;
    desk.show(view.controls);
    picture.show(view.scene);
    player.show(view.scene);
    tell(view);
  };
  const tell = ({ scene, problem, words }) => {
    const guess = player.share < 1 ? scene.guess : "";
    const said = guess || scene.caption;
    picture.svg.setAttribute("aria-label", said);
    caption.classList.toggle("problem", Boolean(problem));
    const heard = guess ? [guess, problem].filter(Boolean).join(" ") : words;
    for (const [place, text] of [[caption, problem || said], [spoken, heard]]) {
      if (place.textContent !== text) place.textContent = text;
    }
  };
  // While the live picture is there, the still one that is stored with the notebook is not shown.
  const style = made("style", {}, document.head);
  style.textContent = `[data-devlab-still="${model.get("view").mark}"] { display: none !important; }`;
  model.on("change:view", draw);
  draw();
  return () => {
    model.off("change:view", draw);
    style.remove();
  };
}

export default { render };
