"""Tests of the package; need numpy, the program and the library:

    VPIPE_PROGRAM=build/vpipe VPIPE_LIBRARY=build/libvpipe.so.0.1 \\
        PYTHONPATH=python python3 -m unittest discover -s python/tests
"""

import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy
import vpipe

PROGRAM = os.environ.get("VPIPE_PROGRAM", "vpipe")

CONFIG = """model_type: gpt2
vocab: 40
hidden: 16
layers: 2
heads: 2
positions: 16
seq_length: 8
batch_size: 4
dropout: 0
accumulation_steps: 2
learning_rate: 0.01
threads_per_stage: 1
"""


def safetensors(tensors, metadata=None):
    """The bytes of a file, made without the package: (type, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def refuses(self, text, function, *args):
        with self.assertRaises(vpipe.Error) as caught:
            function(*args)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))


class CheckpointTest(Folder):
    TENSORS = {
        "a": ("F32", [2, 3], struct.pack("<6f", 1, -2, 0.5, 4, 5, 6)),
        # 1.0, -2.0, 3.140625, infinity as upper halves of float32
        "b": ("BF16", [4], struct.pack("<4H", 0x3F80, 0xC000, 0x4049, 0x7F80)),
        "c": ("F16", [2], struct.pack("<2e", 1.5, -0.25)),
        "d": ("I64", [], struct.pack("<q", -7)),
        "e": ("U8", [0, 5], b""),
    }

    def test_values(self):
        path = self.write("x.safetensors", safetensors(self.TENSORS, {"k": "v"}))
        file = vpipe.Checkpoint(path)
        self.assertEqual(sorted(file), list("abcde"))
        self.assertEqual(file["a"].tolist(), [[1, -2, 0.5], [4, 5, 6]])
        self.assertEqual(file["b"].dtype, numpy.float32)
        self.assertEqual(file["b"].tolist(), [1, -2, 3.140625, float("inf")])
        self.assertEqual(file["c"].tolist(), [1.5, -0.25])
        self.assertEqual(file["d"].shape, ())
        self.assertEqual(int(file["d"]), -7)
        self.assertEqual(file["e"].shape, (0, 5))
        self.assertEqual(file.shape("a"), (2, 3))
        self.assertNotIn("z", file)

    def test_damaged(self):
        def header(value, data=b""):
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            return struct.pack("<Q", len(text)) + text + data

        def tensor(**changes):
            entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
            return header({"t": {**entry, **changes}}, b"1234")

        cases = {
            "is no safetensors file": b"",
            "a header of 4096 bytes": struct.pack("<Q", 4096) + b"{}",
            "damaged header": header(b"{]"),
            "it is no object": header([1]),
            "a key comes twice": header(b'{"t": 1, "t": 2}'),
            "unknown type 'F8'": tensor(dtype="F8"),
            "unknown type 'None'": header({"t": {}}),
            "damaged shape": tensor(shape=[-1]),
            "data outside": tensor(data_offsets=[0, 8]),
            "which has 8": tensor(shape=[2]),
            "bytes of data for": tensor(shape=[2**62, 2**62]),
            "is no object": header({"t": 3}),
            "__metadata__": header({"__metadata__": 3}),
            "4 bytes behind": header({}, b"1234"),
            "has a gap": header(
                {"t": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}, b"123"
            ),
        }
        for text, data in cases.items():
            with self.subTest(text):
                self.refuses(text, vpipe.Checkpoint, self.write("x.st", data))
        self.refuses("no such file", vpipe.Checkpoint, self.path("none"))
        self.refuses("no safetensors files", vpipe.Checkpoint, self.folder.name)

    def test_every_cut_and_many_bytes(self):
        """A file that ends anywhere, or has other bytes: arrays or an Error."""
        whole = safetensors(self.TENSORS)
        for n in range(len(whole)):
            with self.subTest(n):
                path = self.write("x.safetensors", whole[:n])
                self.assertRaises(vpipe.Error, vpipe.Checkpoint, path)
        draw = random.Random(1)
        for _ in range(2000):
            data = bytearray(whole)
            for _ in range(draw.randint(1, 4)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            try:
                file = vpipe.Checkpoint(self.write("x.safetensors", bytes(data)))
                for name in file:
                    file[name]
            except vpipe.Error as error:
                self.assertNotIn("\n", str(error))

    def test_manifest(self):
        data = safetensors(self.TENSORS)
        manifest = {
            "format": "vpipe checkpoint",
            "version": 2,
            "step": 7,
            "facts": {"minibatch": 14},
            "files": [{"name": "block-0000.safetensors", "bytes": len(data)}],
        }
        for step in (7, 10, 9):
            self.write(f"run/checkpoints/step-{step}/block-0000.safetensors", data)
            self.write(
                f"run/checkpoints/step-{step}/manifest.json",
                json.dumps({**manifest, "step": step}),
            )
        self.write("run/checkpoints/step-11.tmp/manifest.json", "{")
        newest = vpipe.Checkpoint(self.path("run"))
        self.assertEqual(newest.step, 10)
        self.assertEqual(newest.facts["minibatch"], 14)
        self.assertEqual(vpipe.Checkpoint(self.path("run/checkpoints")).step, 10)
        one = self.path("run/checkpoints/step-7")
        self.assertEqual(vpipe.Checkpoint(one).step, 7)
        self.write("run/checkpoints/step-7/block-0000.safetensors", data + b" ")
        self.refuses("manifest.json says", vpipe.Checkpoint, one)
        for text, change in {
            "no manifest of vpipe": {"format": "x"},
            "unknown version 9": {"version": 9},
            "names no files": {"files": 3},
            "damaged name": {"files": [{"name": "../x", "bytes": 1}]},
            "No such file": {"files": [{"name": "x", "bytes": 1}]},
        }.items():
            self.write(
                "run/checkpoints/step-7/manifest.json", json.dumps({**manifest, **change})
            )
            self.refuses(text, vpipe.Checkpoint, one)


class RunTest(Folder):
    def test_records(self):
        self.write(
            "run/metrics.jsonl",
            '{"step": 1, "loss": 2.5, "lr": 0.1, "memory": [1, 2]}\n'
            '{"step": 1, "eval_loss": 2.25, "event": "eval"}\n'
            "not a record\n"
            '{"step": 2, "loss": null, "grad_norm": [3, 4]}\n'
            '{"step": 2, "event": "rebalance", "why": "asked"}\n'
            '{"step": 3, "lo',
        )
        self.write(
            "run/config.yml",
            '# model\nmodel_type: gpt2\nstages: 2\npartition: [3, 4]\n'
            'learning_rate: 1e-05\nrecompute: true\ntext_key: "a: b"\n',
        )
        run = vpipe.Run(self.path("run"))
        self.assertEqual(len(run), 2)
        self.assertEqual(run.step.tolist(), [1, 2])
        self.assertEqual(run.loss[0], 2.5)
        self.assertTrue(numpy.isnan(run.loss[1]) and numpy.isnan(run.lr[1]))
        self.assertEqual(run.grad_norm[1], 5)
        self.assertEqual(run.metrics()["memory"], [[1, 2], None])
        self.assertEqual(run.evals["eval_loss"].tolist(), [2.25])
        self.assertEqual(run.events[0]["why"], "asked")
        self.assertEqual(run.skipped, 2)
        self.assertIsNone(run.plan)
        self.assertEqual(
            run.config,
            {
                "model_type": "gpt2",
                "stages": 2,
                "partition": [3, 4],
                "learning_rate": 1e-5,
                "recompute": True,
                "text_key": "a: b",
            },
        )
        with self.assertRaises(AttributeError):
            run.colour
        self.write("run/plan.json", "{")
        self.refuses("plan.json", run.reload)
        self.refuses("is no run", vpipe.Run, self.folder.name)
        self.refuses("no such folder", vpipe.Run, self.path("none"))


class ProgramTest(Folder):
    def setUp(self):
        super().setUp()
        self.config = self.write("gpt2.yml", CONFIG)

    def train(self, **keys):
        keys = {"total_steps": 30, "stages": 2, **keys}
        return vpipe.train(self.config, keys, output=self.path("run"))

    def test_train_and_read(self):
        with self.train(eval_every=10) as training:
            records = list(training)
        steps = [r for r in records if "event" not in r]
        self.assertEqual([r["step"] for r in steps], list(range(1, 31)))
        self.assertEqual(training.status, 0)
        run = training.run()
        self.assertEqual(run.loss.tolist(), [r["loss"] for r in steps])
        self.assertEqual(run.plan["partition"], [3, 3])
        self.assertEqual(run.config["stages"], 2)
        self.check_weights(run)
        self.check_model(run)

    def check_weights(self, run):
        """As the program exports them, exactly, and rounded to BF16."""
        checkpoint = vpipe.Checkpoint(run.path)
        self.assertEqual(checkpoint.step, 30)
        for kind in ("f32", "bf16"):
            folder = self.path("hf-" + kind)
            subprocess.run(
                [PROGRAM, "export", run.path, folder, "--dtype", kind],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            exported = vpipe.Checkpoint(folder)
            self.assertGreater(len(checkpoint), 2 * len(exported))
            self.assertLessEqual(set(exported), set(checkpoint.weights()))
            for name in exported:
                want = checkpoint[name]
                if kind == "bf16":
                    bits = want.view("<u4").astype(numpy.uint64)
                    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
                    want = bits.astype("<u4").view("<f4")
                self.assertTrue(numpy.array_equal(exported[name], want), name)

    def check_model(self, run):
        """The library gives the ids of the program."""
        printed = subprocess.run(
            [PROGRAM, "generate", run.path, "--ids", "3,4,5", "--max-tokens", "6",
             "--print-ids"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        with vpipe.Model(run.path, stages=2) as model:
            ids = model.generate([3, 4, 5], n_new=6)
            want = [int(word) for word in printed.replace(",", " ").split()]
            self.assertEqual(ids.tolist(), want)
            drawn = [
                model.generate([3], 8, temperature=5.0, seed=s).tolist()
                for s in (1, 1, 2)
            ]
            self.assertEqual(drawn[0], drawn[1])
            self.assertNotEqual(drawn[0], drawn[2])
            self.assertEqual(model.generate([3], 8, end_id=ids[0]).dtype, numpy.int32)
            self.assertAlmostEqual(
                model.evaluate()["loss"], numpy.mean(run.loss[-3:]), delta=0.5
            )
            self.assertIn("stages: 2", model.config())
            self.refuses("id", model.generate, [4000])
            for prompt in (3, "abc", [2**40], [[1]], [1.5], [], [-1], [[1], 2]):
                self.refuses("list of ids", model.generate, prompt)
        self.assertTrue(vpipe.library_version().startswith("0.1."))
        self.refuses("no such folder", vpipe.Model, self.path("none"))
        with self.assertRaises(vpipe.Error):
            vpipe.Model(run.path, stagess=1)

    def test_stop_and_resume(self):
        with self.train(total_steps=100000) as training:
            for record in training:
                if record["step"] == 5:
                    self.assertEqual(training.stop(), 3)
                    break
        step = vpipe.Checkpoint(training.output).step
        self.assertGreaterEqual(step, 5)
        with vpipe.train(
            self.config,
            {"total_steps": 100000, "stages": 1},
            output=self.path("more"),
            resume=training.output,
        ) as more:
            self.assertEqual(next(iter(more))["step"], step + 1)
        self.assertEqual(more.status, 3)

    def test_failures(self):
        self.refuses("'hidden'", list, self.train(hiden=3))
        shutil.rmtree(self.path("run"), ignore_errors=True)
        self.refuses("no such program", vpipe.train, self.config, None, None, None, "/x")
        self.refuses("none.yml", list, vpipe.train(self.path("none.yml")))


if __name__ == "__main__":
    unittest.main()
