"""Writes scalars.tfevents with TensorBoard's own classes: pip install tensorboard, then run this file here."""

import pathlib

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer import record_writer

with open(pathlib.Path(__file__).parent / "scalars.tfevents", "wb") as out:
    writer = record_writer.RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=1700000000.25, file_version="brain.Event:2").SerializeToString())
    rows = [
        (1700000000.5, 1, [("round/examples", 640), ("round/loss", 1.25)]),
        (1700000001.5, 2, [("round/examples", 320), ("round/loss", 0.1)]),
        (1700000002.0, 2, [("test/accuracy", 0.875)]),
        (1700000003.0, 100000, [("évaluation/f1", -0.5)]),
    ]
    for wall_time, step, values in rows:
        summary = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values]
        )
        writer.write(event_pb2.Event(wall_time=wall_time, step=step, summary=summary).SerializeToString())
    writer.flush()
