"""Reads event files with the real TensorBoard and prints their scalars.

    python tests/oracle/read_tensorboard.py tests/golden/tensorboard   # checks the golden file's content
    python tests/oracle/read_tensorboard.py runs/demo                  # shows the last scalars of a run

Needs the package tensorboard.
"""
import os
import shutil
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def scalars_of(folder):
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        tag: [(event.wall_time, event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def check_golden(folder):
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(os.path.join(folder, "events.bin"), os.path.join(scratch, "events.out.tfevents.1.x"))
        scalars = scalars_of(scratch)
    expected = {
        "train/loss": [(1700000001.5, 7, 2.5)],
        "train/norm": [(1700000001.5, 7, -0.125)],
    }
    assert scalars == expected, scalars
    print("as expected:", scalars)


def main():
    folder = sys.argv[1]
    if os.path.exists(os.path.join(folder, "events.bin")):
        check_golden(folder)
        return
    for tag, events in scalars_of(folder).items():
        steps = [step for _, step, _ in events]
        assert steps == sorted(set(steps)), f"{tag}: steps repeat or go back: {steps}"
        print(f"{tag:32} {len(events):6} values, last {events[-1][2]:.6g} at step {events[-1][1]}")


main()
