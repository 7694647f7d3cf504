"""Runs two versions of Chorus, or two settings, alternately on the same work. bench/engine.py calls it.

Speed on a shared machine drifts by more than a few percent within minutes, so the two alternate, and so does their
order: A B, B A, A B, ... The ratio is the median over the repetitions of speed A / speed B.
"""
import statistics

import chorus_side
import workloads


def interleave(first, second, repetitions):
    """Speeds of both sides, one per repetition; a side is a function that returns its speed."""
    speeds = ([], [])
    for repetition in range(repetitions):
        for side in ((0, 1) if repetition % 2 == 0 else (1, 0)):
            speeds[side].append((first, second)[side]())
    return speeds


def ratio_of(speeds):
    """The median ratio, and the smallest and the largest."""
    ratios = [a / b for a, b in zip(*speeds)]
    return {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def training_speed(program, work, device, setting):
    measured, _ = chorus_side.rounds(program, work, device, setting)
    return work.examples / statistics.median(event["seconds"] for event in measured)


def scale_speed(program, device, count):
    """Clients per second beyond training (W7)."""
    measured, _ = chorus_side.scale(program, device, count)
    return 1 / statistics.median((event["seconds"] - event["training_seconds"]) / event["clients"] for event in measured)


def settings(device, threads):
    """Settings that both versions support: the automatic share of the machine, in every precision of the oldest."""
    if device == "cuda":
        return [{"precision": precision} for precision in ("float32", "bfloat16")]
    return [{"precision": precision, "workers": threads, "threads": 1} for precision in workloads.cpu_precisions()]


def against(bench, other):
    """One row per workload and setting: this program's speed / the other's."""
    options = bench.options
    rows = []

    def pair(key, title, setting, speed):
        try:
            speeds = interleave(lambda: speed(options.chorus), lambda: speed(other), options.repetitions)
            row = {**ratio_of(speeds), "speeds": speeds}
        except Exception as error:  # noqa: BLE001
            row = {"failure": (str(error).strip().splitlines() or [type(error).__name__])[0]}
        rows.append({"workload": key, "title": title, "setting": setting, **row})
        bench.say(f"{key} {title}, {bench.setting_text(setting)}: " + text_of(row))

    for key in options.only:
        if key in workloads.TRAINING:
            for work in workloads.TRAINING[key](bench.size):
                for setting in settings(options.device, options.threads):
                    pair(key, work.title, setting,
                         lambda program: training_speed(program, work, options.device, setting))
        elif key == "W6":
            count, size = (20, 5_000_000) if options.quick else (100, 110_000_000)
            arguments = ("--updates", count, "--size", size, "--threads", options.threads, "--device", options.device)
            pair(key, f"mean of {count} x {size / 1e6:g} M", {"precision": "float32"},
                 lambda program: bench.report_of("aggregation", *arguments, beside=program)["bytes_per_second"])
        elif key == "W7":
            work = workloads.w7(bench.size)[0]
            pair(key, work.title, {"precision": "float32", "workers": 1, "threads": 1},
                 lambda program: scale_speed(program, options.device, work.rounds))
    return rows


def determinism(bench, work):
    """What `federation.deterministic: true` costs on a GPU; a CPU is deterministic anyway."""
    options = bench.options
    rows = []
    for precision in ("float32", "bfloat16"):
        setting = {"precision": precision}
        speeds = interleave(
            lambda: training_speed(options.chorus, work, options.device, {**setting, "deterministic": True}),
            lambda: training_speed(options.chorus, work, options.device, {**setting, "deterministic": False}),
            options.repetitions)
        row = {"workload": work.key, "title": f"{work.title}: deterministic over not", "setting": setting,
               **ratio_of(speeds), "speeds": speeds}
        rows.append(row)
        bench.say(f"{row['workload']} {row['title']}, {bench.setting_text(setting)}: " + text_of(row))
    return rows


def text_of(row):
    if "failure" in row:
        return f"failed: {row['failure']}"
    first, second = (statistics.median(side) for side in row["speeds"])
    return f"{row['ratio']:.3f} ({row['least']:.3f} to {row['most']:.3f}); medians {first:.4g} and {second:.4g}"


def table(rows, name):
    lines = [["", "workload", "setting", name, "least", "most"]]
    for row in rows:
        numbers = [f"{row[key]:.3f}" for key in ("ratio", "least", "most")] if "ratio" in row else [text_of(row), "", ""]
        lines.append([row["workload"], row["title"], row["setting"]["precision"], *numbers])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)

