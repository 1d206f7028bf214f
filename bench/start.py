#!/usr/bin/env python3
"""Measures how long `vpipe train` takes to start.

  bench/start.py [--rounds N] [--program PATH]... CONFIG [KEY=VALUE]...

Prints the seconds from the command to the summary (configuration, data, devices and
first weights are ready) and to the end of the first step, for one or more programs
that take turns. The first round is printed separately: file caches and caches of
kernels are cold then. Each run is killed after its first step; its folder is removed.
"""
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 300  # seconds


def run(program, config, sets):
    """Returns the seconds to the line about the model and to that of the first
    step."""
    folder = tempfile.mkdtemp()
    command = [program, "train", config, "--output", folder + "/run",
               "--set", "print_frequency=1"]
    for text in sets:
        command += ["--set", text]
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    times = {}
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            word = line.split(" ", 1)[0]
            times.setdefault(word, time.monotonic() - begin)
            if word == "step" or time.monotonic() - begin > LIMIT:
                break
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)
    if "step" not in times:
        sys.exit(f"{' '.join(command)} made no step:\n{''.join(lines)}")
    return times["model"], times["step"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", action="append")
    parser.add_argument("config")
    parser.add_argument("sets", nargs="*")
    args = parser.parse_args()
    programs = args.program or ["build/vpipe"]
    taken = {program: [] for program in programs}
    for _ in range(args.rounds):
        for program in programs:
            taken[program].append(run(program, args.config, args.sets))
    for program, rounds in taken.items():
        print(program)
        for name, i in ("summary", 0), ("first step", 1):
            seconds = [times[i] for times in rounds]
            later = seconds[1:] or seconds
            print(f"  {name:10}  first {seconds[0]:.2f} s, then "
                  f"{statistics.median(later):.2f} "
                  f"({min(later):.2f}..{max(later):.2f})")


if __name__ == "__main__":
    main()
