#!/usr/bin/env python3
"""Makes tables and pictures from the rows of bench_scaling.

  bench/scaling.py study ROWS       tables; pictures into --images
  bench/scaling.py calibrate ROWS   table of simulated and measured times

Each schedule is shown with its fastest mix of stages and replicas. Needs only base
Python.
"""
import argparse
import json
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

MODELS = {"bert-48": "BERT, 48 layers", "cpm-large": "CPM-large"}
COLOURS = {"gpipe": "#3a7d44", "1f1b": "#2f5fa7", "1f1b deep": "#7aa6de",
           "interleaved": "#8a5fb0", "zb-h1": "#c23b4b", "zb-v": "#e39aa3",
           "pipedream": "#d98324", "macrobatch": "#8a8f98"}
PARTS = (("computing", "#2f5fa7"), ("bubble", "#e3c35a"),
         ("communication", "#c23b4b"))
BARS_AT = 32     # number of ranks in the second picture


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("action", choices=("study", "calibrate"))
    p.add_argument("rows", type=pathlib.Path)
    p.add_argument("--images", type=pathlib.Path, default=ROOT / "docs/img")
    return p.parse_args()


def unique(rows, key):
    return list(dict.fromkeys(r[key] for r in rows))


class Study:
    def __init__(self, rows):
        self.rows = rows
        self.ranks = unique(rows, "ranks")
        self.gbits = unique(rows, "gbit")
        self.schedules = [s for s in COLOURS if s in unique(rows, "schedule")]

    def best(self, model, gbit, ranks, schedule):
        """Returns the fastest mix, or None if the schedule cannot run."""
        mixes = [r for r in self.rows
                 if (r["model"], r["gbit"], r["ranks"], r["schedule"]) ==
                 (model, gbit, ranks, schedule)]
        return max(mixes, key=lambda r: r["samples_per_second"], default=None)


# ---- Tables -----------------------------------------------------------------

def mix(row):
    return (f"{row['stages']}&times;{row['replicas']}"
            + (" R" if row["recompute"] else ""))


def show_efficiency(study, model):
    print("| schedule | Gb/s | " +
          " | ".join(f"{n} ranks" for n in study.ranks) + " |")
    print("| --- | --- |" + " --- |" * len(study.ranks))
    for schedule in study.schedules:
        for gbit in study.gbits:
            cells = []
            for n in study.ranks:
                row = study.best(model, gbit, n, schedule)
                cells.append(f"{row['samples_per_second']:.0f} "
                             f"({100 * row['efficiency']:.0f} %, {mix(row)})"
                             if row else "-")
            print(f"| {schedule} | {gbit:g} | " + " | ".join(cells) + " |")


def show_parts(study, model):
    print(f"| schedule | Gb/s | stages&times;replicas | computing | bubble | "
          "communication | GiB per rank |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for schedule in study.schedules:
        for gbit in study.gbits:
            row = study.best(model, gbit, BARS_AT, schedule)
            if row:
                shares = " | ".join(f"{100 * abs(row[part]):.0f} %"
                                    for part, _ in PARTS)
                print(f"| {schedule} | {gbit:g} | {mix(row)} | {shares} | "
                      f"{row['gib']:.1f} |")


def show_calibration(rows):
    print("| ranks | cores | schedule | measured, s | forecast / measured | "
          "replay / measured |")
    print("| --- | --- | --- | --- | --- | --- |")
    for r in rows:
        seconds, replay = ("{:.3f} ({:.3f}..{:.3f})".format(*r[key]) for key in
                           ("measured_s", "replay_over_measured"))
        crowded = r["ranks"] > r["cores"]
        print(f"| {r['ranks']} | {r['cores']} | {r['schedule']} | {seconds} | "
              f"{r['forecast_over_measured']:.3f} | "
              f"{'-' if crowded else replay} |")


# ---- Pictures ---------------------------------------------------------------

W, H = 290, 240          # size of a panel
LEFT, TOP, GAP = 60, 64, 46


def text(x, y, words, anchor="start", size=12, fill="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
            f'text-anchor="{anchor}">{words}</text>')


def picture(width, height, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        *body, "</svg>"]) + "\n"


def legend(names, x, y):
    out = []
    for name, colour in names:
        out.append(f'<rect x="{x}" y="{y - 9}" width="18" height="9" '
                   f'fill="{colour}"/>')
        out.append(text(x + 24, y, name))
        x += 48 + 7 * len(name)
    return out


def speed_panel(study, model, gbit, left, top):
    """Draws the speed-up over one rank; both axes are logarithmic."""
    low, high = 0, math.log2(study.ranks[-1])
    first = math.log2(study.ranks[0])

    def px(n):
        return left + W * (math.log2(n) - first) / (high - first)

    def py(x):
        return top + H * (high - max(math.log2(x), low)) / (high - low)

    out = [text(left, top - 10, f"{MODELS[model]}, {gbit:g} Gb/s", size=13)]
    for n in study.ranks:
        out.append(f'<path d="M{px(n):.1f} {top}v{H}" stroke="#eee"/>')
        out.append(text(px(n), top + H + 16, n, "middle", 11, "#666"))
    for x in (2 ** i for i in range(int(high) + 1)):
        out.append(f'<path d="M{left} {py(x):.1f}h{W}" stroke="#eee"/>')
        out.append(text(left - 6, py(x) + 4, x, "end", 11, "#666"))
    ends = study.ranks[0], study.ranks[-1]
    out.append(f'<path d="M{px(ends[0]):.1f} {py(ends[0]):.1f}'
               f'L{px(ends[1]):.1f} {py(ends[1]):.1f}" stroke="#999" '
               'stroke-dasharray="3 4"/>')
    for schedule in study.schedules:
        rows = [study.best(model, gbit, n, schedule) for n in study.ranks]
        points = " ".join(
            f"{px(r['ranks']):.1f},{py(r['efficiency'] * r['ranks']):.1f}"
            for r in rows if r)
        out.append(f'<polyline points="{points}" fill="none" stroke-width="2" '
                   f'stroke="{COLOURS[schedule]}" stroke-linejoin="round"/>')
    return out


def draw_speed(study):
    body = legend(((s, COLOURS[s]) for s in study.schedules), LEFT, 24)
    for i, model in enumerate(MODELS):
        for j, gbit in enumerate(study.gbits):
            body += speed_panel(study, model, gbit, LEFT + j * (W + GAP),
                                TOP + i * (H + 60))
    width = LEFT + 3 * W + 2 * GAP + 24
    body.append(text(width - 24, TOP + 2 * H + 100,
                     "speed-up over one rank, against ranks; dashed: all of "
                     "them", "end", 12, "#666"))
    return picture(width, TOP + 2 * H + 112, body)


def bars_panel(study, model, gbit, left, top):
    step = H / len(study.schedules)
    out = [text(left, top - 10, f"{MODELS[model]}, {gbit:g} Gb/s", size=13)]
    for i, schedule in enumerate(study.schedules):
        row = study.best(model, gbit, BARS_AT, schedule)
        x, y = left + 72.0, top + i * step
        out.append(text(x - 6, y + 0.6 * step, schedule, "end", 11))
        for part, colour in PARTS:
            width = (W - 72) * max(row[part], 0.0)
            out.append(f'<rect x="{x:.1f}" y="{y + 4:.1f}" '
                       f'width="{width:.1f}" height="{step - 8:.1f}" '
                       f'fill="{colour}"/>')
            x += width
    return out


def draw_bars(study):
    body = legend(PARTS, LEFT, 24)
    for i, model in enumerate(MODELS):
        for j, gbit in enumerate(study.gbits):
            body += bars_panel(study, model, gbit, 20 + j * (W + GAP),
                               TOP + i * (H + 44))
    width = 20 + 3 * W + 2 * GAP + 24
    body.append(text(width - 24, TOP + 2 * H + 68,
                     f"where the time of {BARS_AT} ranks goes", "end", 12,
                     "#666"))
    return picture(width, TOP + 2 * H + 80, body)


def main():
    args = arguments()
    rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    if args.action == "calibrate":
        show_calibration(rows)
        return
    study = Study(rows)
    for model in MODELS:
        print(f"\n### {MODELS[model]}\n\nSamples per second:\n")
        show_efficiency(study, model)
        print(f"\nOn {BARS_AT} ranks:\n")
        show_parts(study, model)
    args.images.mkdir(parents=True, exist_ok=True)
    (args.images / "scaling_speed.svg").write_text(draw_speed(study))
    (args.images / "scaling_time.svg").write_text(draw_bars(study))


if __name__ == "__main__":
    main()
