#!/usr/bin/env python3
"""Pages of vpipe report in a headless Chromium, driven over a pipe.

usage: report_browser.py CHROMIUM ONE.html SEVERAL.html LARGE.html

Checks that the pages load nothing, write nothing to the console, can be used with
the mouse and the keyboard, are readable without script, and that the large one
opens in two seconds.
"""
import sys
import tempfile

from devtools import Browser

OPENS_WITHIN = 2.0  # seconds


failures = 0
checks = 0


def check(what, good, detail=""):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what} {detail}")


DRAWN = "new Promise(r => requestAnimationFrame(() => setTimeout(r, 0)))"

# The contrast of every text with its background, the worst first (WCAG 2.1).
CONTRAST = """(() => {
    const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
    const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928
        ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0)
                return c;
        }
        return [255, 255, 255];
    };
    const worst = { ratio: 99 };
    for (const e of document.body.querySelectorAll("*")) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 &&
            n.textContent.trim());
        if (!own || e.closest("script, .numbers, title") || !e.getClientRects().length)
            continue;
        const style = getComputedStyle(e);
        const ink = rgb(e instanceof SVGElement ? style.fill : style.color);
        const a = light(ink) + 0.05, b = light(ground(e)) + 0.05;
        const ratio = Math.max(a / b, b / a);
        if (ratio < worst.ratio)
            Object.assign(worst, { ratio, text: e.textContent.slice(0, 40) });
    }
    return worst;
})()"""


def check_silence(browser, page):
    noise = [e for e in browser.events if e.get("method") in
             ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
              "Log.entryAdded")]
    check(f"{page}: the console is silent", not noise, noise[:2])
    loads = [e["params"]["request"]["url"] for e in browser.events
             if e.get("method") == "Network.requestWillBeSent"]
    check(f"{page}: one file is loaded", len(loads) == 1, loads[:3])


def check_curves(browser):
    line = 'document.querySelector("[data-curve=loss] .line").getAttribute("d")'
    click = 'document.querySelector(`%s`).click(), ' + DRAWN
    before = browser.value(line)
    ticks = ('[...document.querySelectorAll("[data-curve=loss] .tick.mid")]'
             '.map(t => t.textContent).join(" ")')
    for axis in ("tokens", "time"):
        old = browser.value(ticks)
        browser.value(click % f'[data-x="{axis}"]')
        check(f"x axis: {axis}", browser.value(ticks) != old)
    browser.value(click % '[data-x="step"]')
    check("x axis: back to steps", browser.value(line) == before)
    browser.value('(s => { s.value = 0.9; s.dispatchEvent(new Event("input")) })'
                  '(document.getElementById("smooth")), ' + DRAWN)
    smooth = browser.value(line)
    check("smoothing changes the curve", smooth != before)
    browser.value('(s => { s.value = 0; s.dispatchEvent(new Event("input")) })'
                  '(document.getElementById("smooth")), ' + DRAWN)
    browser.value(click % "#log")
    check("a logarithmic axis changes the curve", browser.value(line) != before)
    browser.value(click % "#log")
    check("all toggles back: the same curve", browser.value(line) == before)
    browser.value(click % '[data-zoom="in"]')
    zoomed = browser.value("vpipe.state.range")
    check("a button zooms in", zoomed is not None)
    browser.value('document.querySelector("[data-curve=loss] svg").focus()')
    browser.key("ArrowRight")
    browser.value(DRAWN)
    moved = browser.value("vpipe.state.range")
    check("an arrow key moves", moved != zoomed, (zoomed, moved))
    browser.key("0")
    browser.value(DRAWN)
    check("0 shows all", browser.value("vpipe.state.range") is None)
    drag(browser, '[data-curve="loss"] svg', 0.4, 0.6)
    check("dragging zooms", browser.value("vpipe.state.range") is not None)
    browser.value(click % '[data-zoom="all"]')
    check("all is all again", browser.value(line) == before)


def drag(browser, selector, start, end):
    box = browser.value("(e => { e.scrollIntoView(); const b = "
                        "e.getBoundingClientRect(); return [b.left, b.top, "
                        "b.width, b.height] })(document.querySelector(`%s`))"
                        % selector)
    y = box[1] + box[3] / 2
    for kind, share in (("mousePressed", start), ("mouseMoved", (start + end) / 2),
                        ("mouseMoved", end), ("mouseReleased", end)):
        browser.call("Input.dispatchMouseEvent", type=kind, button="left",
                     buttons=1, clickCount=1, x=box[0] + box[2] * share, y=y)
    browser.value(DRAWN)


def check_timeline(browser):
    box = 'document.querySelector(".boxes").getAttribute("viewBox")'
    before = browser.value(box)
    browser.value('document.querySelector(".lanes").focus()')
    browser.key("+")
    browser.value(DRAWN)
    zoomed = browser.value(box)
    check("timeline: + zooms", zoomed != before)
    browser.key("ArrowRight")
    browser.value(DRAWN)
    check("timeline: an arrow key moves", browser.value(box) != zoomed)
    drag(browser, ".lanes", 0.5, 0.8)
    browser.value('document.querySelector("[data-go=all]").click(), ' + DRAWN)
    end = browser.value(box)
    check("timeline: all of it again", [float(v) for v in end.split()] ==
          [float(v) for v in before.split()], (before, end))
    check("timeline: boxes have numbers",
          browser.value('document.querySelectorAll(".numbers text").length') > 0)


def check_live(browser):
    n = browser.value("vpipe.data.runs[0].steps.step.length")
    added = browser.value(
        'vpipe.add(\'{"step": 99999, "loss": 1.5, "lr": 0.1, "grad_norm": [3, 4], '
        '"tokens_per_second": 10, "seconds": 1, "bubble": 0.5, "memory": [1]}\')')
    browser.value(DRAWN)
    check("a line is added", added is True and browser.value(
        "vpipe.data.runs[0].steps.step.length") == n + 1)
    check("its norm is that of all stages", browser.value(
        "vpipe.data.runs[0].steps.norm.mean.at(-1)") == 5)
    browser.value("for (let i = 0; i < 9000; i++) vpipe.add({step: 100000 + i, "
                  "loss: i % 7, seconds: 1})")
    check("added lines are thinned", browser.value(
        "vpipe.data.runs[0].steps.step.length") <= 4096)
    check("thinning keeps the extremes", browser.value(
        "Math.max(...vpipe.data.runs[0].steps.loss.most.slice(1000))") == 6)


def check_media(browser):
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])
        worst = browser.value(CONTRAST)
        check(f"{scheme}: texts have a contrast of 4.5", worst["ratio"] >= 4.5,
              worst)
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    check("print: no controls", browser.value(
        'getComputedStyle(document.getElementById("curve-controls")).display')
        == "none")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=800,
                 deviceScaleFactor=1, mobile=True)
    check("a narrow screen: nothing sticks out", browser.value(
        "document.documentElement.scrollWidth") <= 360)
    browser.call("Emulation.clearDeviceMetricsOverride")


def check_without_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    root = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]

    def count(selector):
        return len(browser.call("DOM.querySelectorAll", nodeId=root,
                                selector=selector)["nodeIds"])

    check("without script: curves", count("figure .line[d^=M]") >= 6)
    check("without script: a timeline", count(".boxes rect.f") > 0)
    check("without script: controls are hidden",
          count(".controls[hidden]") == count(".controls"))
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def main():
    chromium, one, several, large = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            browser.call(domain + ".enable")
        browser.open(one)
        check_curves(browser)
        check_timeline(browser)
        check_media(browser)
        check_live(browser)
        check_silence(browser, "one run")
        browser.open(several)
        line = 'document.querySelectorAll("[data-curve=loss] .line").length'
        n = browser.value(DRAWN + ".then(() => " + line + ")")
        browser.value('document.querySelector("#runs button").click(), ' + DRAWN)
        check("a run is hidden", browser.value(line) < n)
        check_silence(browser, "several runs")
        seconds = min(browser.open(large) for _ in range(3))
        check("a million steps open in time", seconds < OPENS_WITHIN,
              f"{seconds:.2f} s")
        check_silence(browser, "a million steps")
        check_without_script(browser, one)
        browser.end()
    print(f"{checks} checks, {failures} failures; a million steps in "
          f"{seconds:.2f} s")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
