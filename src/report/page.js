/* The script of a report: adds zoom, toggles and smoothing to a page that is
 * readable without it. vpipe.add(line, run) appends a line of metrics.jsonl of a
 * live run. */
"use strict";

const vpipe = (() => {
    const WIDTH = 640, HEIGHT = 260;
    const LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 26;
    const MOST_POINTS = 4096;

    const data = JSON.parse(document.getElementById("data").textContent);
    const state = { x: "step", smooth: 0, log: false, range: null };
    const hidden = new Set();

    /* ---- Drawing ---- */

    function element(name, attributes, text) {
        const e = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const key in attributes)
            e.setAttribute(key, attributes[key]);
        if (text !== undefined)
            e.textContent = text;
        return e;
    }

    function short(value) {
        const size = Math.abs(value);
        const cut = (v) => String(Number(v.toPrecision(4)));
        if (size >= 1e9)
            return cut(value / 1e9) + "G";
        if (size >= 1e6)
            return cut(value / 1e6) + "M";
        if (size >= 1e4)
            return cut(value / 1e3) + "k";
        return cut(value);
    }

    function seconds(value) {
        if (value >= 7200)
            return short(value / 3600) + " h";
        return value >= 120 ? short(value / 60) + " min" : short(value) + " s";
    }

    function xText(value) {
        return state.x === "time" ? seconds(value) : short(value);
    }

    /* Ticks between `least` and `most`, 1, 2 or 5 times a power of ten apart, in
     * at most `n` steps. */
    function ticks(least, most, n) {
        const raw = (most - least) / n;
        const power = 10 ** Math.floor(Math.log10(raw));
        const step = [1, 2, 5, 10].map((k) => k * power)
            .find((s) => s >= raw * (1 - 1e-9)) || power * 10;
        const out = [];
        for (let k = Math.ceil(least / step - 1e-9); k * step <= most + 1e-9 * step;
            k++)
            out.push(k * step);
        return out;
    }

    function logTicks(least, most) {
        const out = [];
        const dense = Math.log10(most / least) < 2;
        for (let e = Math.floor(Math.log10(least)); e <= Math.log10(most); e++)
            for (const k of dense ? [1, 2, 5] : [1])
                if (k * 10 ** e >= least && k * 10 ** e <= most)
                    out.push(k * 10 ** e);
        return out;
    }

    /* Exponential moving average with bias correction. */
    function smooth(values) {
        const a = state.smooth;
        let sum = 0, weight = 0;
        if (a === 0)
            return values;
        return values.map((v) => {
            if (v === null)
                return null;
            sum = a * sum + (1 - a) * v;
            weight = a * weight + (1 - a);
            return sum / weight;
        });
    }

    /* Returns the lines of a chart within the visible range of x. */
    function linesOf(id) {
        const out = [];
        data.runs.forEach((run, number) => {
            if (hidden.has(number))
                return;
            for (const [part, dashed] of [["steps", false], ["evals", true]]) {
                const columns = run[part], curve = columns[id];
                if (curve && columns.step.length > 0)
                    out.push({
                        run, dashed, x: columns[state.x],
                        y: dashed ? curve.mean : smooth(curve.mean),
                        least: state.smooth ? null : curve.least,
                        most: state.smooth ? null : curve.most,
                    });
            }
        });
        return out;
    }

    function fullRange() {
        let least = Infinity, most = -Infinity;
        for (const run of data.runs) {
            const x = run.steps[state.x];
            if (x.length > 0) {
                least = Math.min(least, x[0]);
                most = Math.max(most, x[x.length - 1]);
            }
        }
        return least < most ? [least, most] : [least - 1, least + 1];
    }

    function inside(value, range) {
        return value >= range[0] && value <= range[1];
    }

    function yRange(lines, range, log, zero) {
        let least = Infinity, most = -Infinity;
        for (const line of lines)
            line.x.forEach((x, i) => {
                for (const column of [line.y, line.least, line.most]) {
                    const v = column ? column[i] : null;
                    if (v === null || v === undefined || !inside(x, range) ||
                        (log && v <= 0))
                        continue;
                    least = Math.min(least, v);
                    most = Math.max(most, v);
                }
            });
        if (zero && !log)
            least = Math.min(least, 0);
        if (least > most)
            return null;
        if (most - least <= 1e-9 * Math.max(Math.abs(most), Math.abs(least))) {
            const room = most !== 0 ? 0.1 * Math.abs(most) : 1;
            return log ? [least / 1.1, most * 1.1] : [least - room, most + room];
        }
        return [least, most];
    }

    function pathOf(x, y, xAt, yAt) {
        let d = "", down = false;
        for (let i = 0; i < x.length; i++) {
            const at = y[i] === null ? NaN : yAt(y[i]);
            if (Number.isFinite(at))
                d += (down ? "L" : "M") + xAt(x[i]).toFixed(1) + " " +
                    at.toFixed(1);
            down = Number.isFinite(at);
        }
        return d;
    }

    function bandOf(line, xAt, yAt) {
        const up = [], down = [];
        line.x.forEach((x, i) => {
            const a = line.most[i], b = line.least[i];
            if (a === null || !Number.isFinite(yAt(a)) ||
                !Number.isFinite(yAt(b)))
                return;
            up.push(xAt(x).toFixed(1) + " " + yAt(a).toFixed(1));
            down.push(xAt(x).toFixed(1) + " " + yAt(b).toFixed(1));
        });
        return up.length ? "M" + up.concat(down.reverse()).join("L") + "Z" : "";
    }

    function drawAxes(svg, view, percent) {
        const { range, span, xAt, yAt, log } = view;
        for (const v of log ? logTicks(...span) : ticks(...span, 5)) {
            svg.append(element("path", {
                class: "grid", d: `M${LEFT} ${yAt(v).toFixed(1)}H${WIDTH - RIGHT}`,
            }), element("text", {
                class: "tick end", x: LEFT - 6, y: (yAt(v) + 4).toFixed(1),
            }, percent ? short(100 * v) + "%" : short(v)));
        }
        for (const v of ticks(...range, 6))
            svg.append(element("text", {
                class: "tick mid", x: xAt(v).toFixed(1), y: HEIGHT - 8,
            }, xText(v)));
        svg.append(element("path", {
            class: "axis", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - RIGHT}`,
        }));
    }

    function draw(figure) {
        const svg = figure.querySelector("svg");
        const lines = linesOf(figure.dataset.curve);
        const range = state.range || fullRange();
        const log = state.log;
        const span = yRange(lines, range, log, "zero" in figure.dataset);
        const clip = "clip-" + figure.dataset.curve;

        svg.replaceChildren();
        figure.view = null;
        if (!span) {
            svg.append(element("text", {
                class: "tick mid", x: WIDTH / 2, y: HEIGHT / 2,
            }, "no data"));
            return;
        }
        const f = log ? Math.log : (v) => v;
        const high = HEIGHT - TOP - BOTTOM, wide = WIDTH - LEFT - RIGHT;
        const view = {
            lines, range, span, log,
            xAt: (x) => LEFT + (x - range[0]) / (range[1] - range[0]) * wide,
            yAt: (y) => HEIGHT - BOTTOM -
                (f(y) - f(span[0])) / (f(span[1]) - f(span[0])) * high,
        };
        const area = element("g", { "clip-path": `url(#${clip})` });
        const box = element("clipPath", { id: clip });

        figure.view = view;
        box.append(element("rect", {
            x: LEFT, y: TOP - 4, width: wide, height: high + 8,
        }));
        drawAxes(svg, view, "percent" in figure.dataset);
        for (const line of lines) {
            const colour = "c" + line.run.colour;
            if (line.least && line.most)
                area.append(element("path", {
                    class: "band " + colour, d: bandOf(line, view.xAt, view.yAt),
                }));
            area.append(element("path", {
                class: "line " + colour + (line.dashed ? " dashed" : ""),
                d: pathOf(line.x, line.y, view.xAt, view.yAt),
            }));
            if (line.dashed && line.x.length < 200)
                line.x.forEach((x, i) => {
                    if (line.y[i] !== null)
                        area.append(element("circle", {
                            class: "dot " + colour, cx: view.xAt(x).toFixed(1),
                            cy: view.yAt(line.y[i]).toFixed(1), r: 2.5,
                        }));
                });
        }
        svg.append(box, area);
    }

    const figures = [...document.querySelectorAll("figure[data-curve]")];
    let waiting = false;

    function redraw() {
        if (waiting)
            return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            figures.forEach(draw);
        });
    }

    /* ---- Zoom of the curves ---- */

    function setRange(least, most) {
        const all = fullRange();
        const size = Math.min(most - least, all[1] - all[0]);
        const start = Math.max(all[0], Math.min(least, all[1] - size));
        state.range = size >= all[1] - all[0] ? null : [start, start + size];
        redraw();
    }

    function zoom(factor, at = 0.5) {
        const [a, b] = state.range || fullRange();
        const middle = a + (b - a) * at;
        setRange(middle - (middle - a) * factor, middle + (b - middle) * factor);
    }

    function pan(share) {
        const [a, b] = state.range || fullRange();
        setRange(a + (b - a) * share, b + (b - a) * share);
    }

    function onKey(event, act) {
        const action = {
            ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in",
            "-": "out", 0: "all", Home: "all",
        }[event.key];
        if (!action || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        act(action);
    }

    function curveAction(action) {
        if (action === "in")
            zoom(0.5);
        else if (action === "out")
            zoom(2);
        else if (action === "left")
            pan(-0.2);
        else if (action === "right")
            pan(0.2);
        else
            setRange(-Infinity, Infinity);
    }

    /* Returns the position of the pointer in the unit of the x axis. */
    function pointerX(figure, event) {
        const box = figure.querySelector("svg").getBoundingClientRect();
        const x = (event.clientX - box.left) / box.width * WIDTH;
        const share = (x - LEFT) / (WIDTH - LEFT - RIGHT);
        const [a, b] = figure.view.range;
        return a + (b - a) * Math.max(0, Math.min(1, share));
    }

    function nearest(values, x) {
        let low = 0, high = values.length - 1;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (values[middle] < x)
                low = middle + 1;
            else
                high = middle;
        }
        return low > 0 && x - values[low - 1] < values[low] - x ? low - 1 : low;
    }

    function read(figure, x) {
        const texts = [];
        const percent = "percent" in figure.dataset;
        for (const line of figure.view.lines) {
            const v = line.y[nearest(line.x, x)];
            if (v !== null && v !== undefined)
                texts.push((line.dashed ? "held-out " : "") +
                    (data.runs.length > 1 ? line.run.name + " " : "") +
                    (percent ? short(100 * v) + " %" : String(
                        Number(v.toPrecision(5)))));
        }
        figure.querySelector(".readout").textContent = xText(x) + ": " +
            texts.join(", ");
    }

    function watchChart(figure) {
        const svg = figure.querySelector("svg");
        let from = null, mark = null;

        svg.setAttribute("tabindex", "0");
        svg.addEventListener("keydown", (e) => onKey(e, curveAction));
        svg.addEventListener("pointerdown", (e) => {
            if (!figure.view || e.button !== 0)
                return;
            from = pointerX(figure, e);
            svg.setPointerCapture(e.pointerId);
        });
        svg.addEventListener("pointermove", (e) => {
            if (!figure.view)
                return;
            const x = pointerX(figure, e), at = figure.view.xAt(x);
            read(figure, x);
            if (mark)
                mark.remove();
            mark = from === null
                ? element("path", {
                    class: "cursor", d: `M${at.toFixed(1)} ${TOP}V${
                        HEIGHT - BOTTOM}`,
                })
                : element("rect", {
                    class: "select", y: TOP, height: HEIGHT - TOP - BOTTOM,
                    x: Math.min(at, figure.view.xAt(from)),
                    width: Math.abs(at - figure.view.xAt(from)),
                });
            svg.append(mark);
        });
        svg.addEventListener("pointerup", (e) => {
            if (from === null)
                return;
            const to = pointerX(figure, e), [a, b] = figure.view.range;
            if (Math.abs(to - from) > (b - a) / 100)
                setRange(Math.min(from, to), Math.max(from, to));
            from = null;
        });
        svg.addEventListener("pointerleave", () => {
            if (mark)
                mark.remove();
            figure.querySelector(".readout").textContent = "";
        });
        svg.addEventListener("dblclick", () => curveAction("all"));
    }

    /* ---- Controls ---- */

    function watchControls() {
        const controls = document.getElementById("curve-controls");
        controls.hidden = false;
        controls.addEventListener("click", (e) => {
            const button = e.target.closest("button");
            if (!button)
                return;
            if (button.dataset.zoom) {
                curveAction(button.dataset.zoom);
                return;
            }
            state.x = button.dataset.x;
            state.range = null;
            for (const b of controls.querySelectorAll("[data-x]"))
                b.setAttribute("aria-pressed", String(b === button));
            redraw();
        });
        document.getElementById("smooth").addEventListener("input", (e) => {
            state.smooth = Number(e.target.value);
            redraw();
        });
        document.getElementById("log").addEventListener("change", (e) => {
            state.log = e.target.checked;
            redraw();
        });
    }

    /* Turns names in the legend into buttons that show and hide their runs. */
    function watchRuns() {
        const legend = document.getElementById("runs");
        if (!legend)
            return;
        [...legend.querySelectorAll(".key")].forEach((key, number) => {
            const button = document.createElement("button");
            button.type = "button";
            button.className = "key";
            button.setAttribute("aria-pressed", "true");
            button.append(...key.childNodes);
            key.replaceWith(button);
            button.addEventListener("click", () => {
                if (!hidden.delete(number))
                    hidden.add(number);
                button.setAttribute("aria-pressed", String(!hidden.has(number)));
                redraw();
            });
        });
    }

    /* ---- Timelines ---- */

    function watchTimeline(holder) {
        const lanes = holder.querySelector(".lanes");
        const boxes = holder.querySelector(".boxes");
        const numbers = holder.querySelector(".numbers");
        const times = holder.querySelector(".times");
        const all = Number(lanes.dataset.window);
        const left = Number(boxes.getAttribute("x"));
        const wide = Number(boxes.getAttribute("width"));
        const high = Number(boxes.getAttribute("height"));
        const rects = [...boxes.querySelectorAll("rect[data-mb]")].map((r) => ({
            x: Number(r.getAttribute("x")), width: Number(r.getAttribute("width")),
            y: Number(r.getAttribute("y")), mb: r.dataset.mb,
            high: Number(r.getAttribute("height")),
        }));
        let start = 0, size = all, grip = null, pending = false;

        function label() {
            const scale = wide / size, texts = [];
            for (const r of rects) {
                const a = Math.max(r.x, start), b = Math.min(r.x + r.width,
                    start + size);
                if ((b - a) * scale >= 16 && texts.length < 1500)
                    texts.push(element("text", {
                        x: (left + ((a + b) / 2 - start) * scale).toFixed(1),
                        y: r.y + r.high / 2 + 4,
                    }, r.mb));
            }
            numbers.replaceChildren(...texts);
            times.replaceChildren(...ticks(start / 1e3, (start + size) / 1e3, 8)
                .map((v) => element("text", {
                    class: "tick mid", y: high + 16,
                    x: (left + (v * 1e3 - start) * scale).toFixed(1),
                }, Number(v.toPrecision(6)) + " ms")));
        }

        function show(newStart, newSize) {
            size = Math.min(all, Math.max(newSize, all / 5000));
            start = Math.max(0, Math.min(newStart, all - size));
            boxes.setAttribute("viewBox", `${start} 0 ${size} ${high}`);
            if (pending)
                return;
            pending = true;
            requestAnimationFrame(() => {
                pending = false;
                label();
            });
        }

        function scaleBy(factor, at) {
            const middle = start + size * at;
            show(middle - size * factor * at, size * factor);
        }

        function act(action) {
            if (action === "in")
                scaleBy(0.5, 0.5);
            else if (action === "out")
                scaleBy(2, 0.5);
            else if (action === "left")
                show(start - size * 0.2, size);
            else if (action === "right")
                show(start + size * 0.2, size);
            else
                show(0, all);
        }

        function share(event) {
            const box = lanes.getBoundingClientRect();
            const total = lanes.viewBox.baseVal.width;
            return ((event.clientX - box.left) / box.width * total - left) / wide;
        }

        holder.querySelector(".controls").hidden = false;
        holder.querySelector(".controls").addEventListener("click", (e) => {
            const button = e.target.closest("button");
            if (button)
                act(button.dataset.go);
        });
        lanes.setAttribute("tabindex", "0");
        lanes.addEventListener("keydown", (e) => onKey(e, act));
        lanes.addEventListener("wheel", (e) => {
            if (!e.ctrlKey)
                return;
            e.preventDefault();
            scaleBy(e.deltaY > 0 ? 1.25 : 0.8, Math.max(0, Math.min(1,
                share(e))));
        }, { passive: false });
        lanes.addEventListener("pointerdown", (e) => {
            grip = { at: share(e), start };
            lanes.setPointerCapture(e.pointerId);
        });
        lanes.addEventListener("pointermove", (e) => {
            if (grip)
                show(grip.start - (share(e) - grip.at) * size, size);
        });
        lanes.addEventListener("pointerup", () => {
            grip = null;
        });
        lanes.addEventListener("dblclick", () => act("all"));
    }

    /* ---- A live run ---- */

    /* Halves the points of a run when there are too many. */
    function thin(columns) {
        const halve = (values, how) => {
            const out = [];
            for (let i = 0; i + 1 < values.length; i += 2)
                out.push(how(values[i], values[i + 1]));
            return out;
        };
        const either = (how) => (a, b) => a === null ? b : b === null ? a : how(a,
            b);
        for (const key in columns)
            if (Array.isArray(columns[key])) {
                columns[key] = halve(columns[key], (a, b) => b);
            } else {
                const c = columns[key];
                c.least = halve(c.least || c.mean, either(Math.min));
                c.most = halve(c.most || c.mean, either(Math.max));
                c.mean = halve(c.mean, either((a, b) => (a + b) / 2));
            }
    }

    function push(columns, x, values) {
        if (columns.step.length >= MOST_POINTS)
            thin(columns);
        for (const key of ["step", "tokens", "time"])
            columns[key].push(x[key]);
        for (const key in columns) {
            if (Array.isArray(columns[key]))
                continue;
            const v = Number.isFinite(values[key]) ? values[key] : null;
            for (const part of ["mean", "least", "most"])
                if (columns[key][part])
                    columns[key][part].push(v);
        }
    }

    /* Appends a record, a line of metrics.jsonl or its object, to run `number`.
     * Returns true if it was a step or an evaluation. */
    function add(line, number = 0) {
        const record = typeof line === "string" ? JSON.parse(line) : line;
        const run = data.runs[number], steps = run.steps;
        const end = (key) => steps[key].length ? steps[key][steps[key].length - 1]
            : 0;
        const norm = record.grad_norm;
        const sum = (list) => list.reduce((a, b) => a + b, 0);

        if (record.event === "eval") {
            push(run.evals, {
                step: record.step, tokens: end("tokens"), time: end("time"),
            }, { loss: record.eval_loss });
        } else if (!record.event && Number.isFinite(record.step)) {
            const time = record.seconds || 0;
            push(steps, {
                step: record.step, time: end("time") + time,
                tokens: end("tokens") + time * (record.tokens_per_second || 0),
            }, {
                loss: record.loss, rate: record.tokens_per_second,
                bubble: record.bubble, lr: record.lr, seconds: record.seconds,
                norm: Array.isArray(norm)
                    ? Math.sqrt(sum(norm.map((v) => v * v))) : norm,
                memory: record.memory ? sum(record.memory) : NaN,
            });
        } else {
            return false;
        }
        redraw();
        return true;
    }

    watchControls();
    watchRuns();
    figures.forEach(watchChart);
    document.querySelectorAll(".timeline").forEach(watchTimeline);
    redraw();
    return { add, data, state };
})();
