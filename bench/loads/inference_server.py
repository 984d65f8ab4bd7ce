#!/usr/bin/env python3
"""A load: an inference server on onnxruntime. Its threads take texts from a socket each, cut them
into tokens, run a classifier over them and keep the newest answers in a cache. The model is made
here, from a seed. Texts have 8 to 400 tokens, so tensors have many sizes; in the burst all are
long.

onnxruntime takes each tensor from malloc (its arena is off), and Python does too: the program
starts itself again with PYTHONMALLOC=malloc. The client is a process of its own, forked at the
start."""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import sys
import threading
import time
from collections import OrderedDict

from marks import Phases

MALLOC = {"PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
VOCABULARY, WIDTH, CLASSES = 8192, 96, 12
LAYERS = 3
WORKERS = 4
ANSWERS = 6000  # in the cache
LENGTH = struct.Struct("<I")
ORDER = struct.Struct("<II")  # texts, phase
POPULAR = 50  # texts that half of the requests ask for again


def make_model(seed: int) -> bytes:
    """Tokens [batch, length] to odds [batch, classes]: embedding, layers of attention, a mean."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    nodes, weights = [], []

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[0]))
        weights.append(numpy_helper.from_array(values, name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: int | list[int]) -> str:
        made = helper.make_node(kind, inputs, [output])
        made.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        nodes.append(made)
        return output

    state = node("Gather", [weight("embedding", VOCABULARY, WIDTH), "tokens"], "embedded")
    for layer in range(LAYERS):
        query, key, value = (
            node("MatMul", [state, weight(f"{name}{layer}.w", WIDTH, WIDTH)], f"{name}{layer}")
            for name in ("query", "key", "value")
        )
        turned = node("Transpose", [key], f"turned{layer}", perm=[0, 2, 1])
        scores = node("MatMul", [query, turned], f"scores{layer}")
        odds = node("Softmax", [scores], f"odds{layer}", axis=-1)
        mixed = node("MatMul", [odds, value], f"mixed{layer}")
        dense = node("MatMul", [mixed, weight(f"dense{layer}.w", WIDTH, WIDTH)], f"dense{layer}")
        state = node("Add", [state, node("Tanh", [dense], f"tanh{layer}")], f"state{layer}")
    mean = node("ReduceMean", [state], "mean", axes=[1], keepdims=0)
    logits = node("MatMul", [mean, weight("head", WIDTH, CLASSES)], "logits")
    node("Softmax", [logits], "classes", axis=-1)
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])
    classes = helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["batch", CLASSES])
    graph = helper.make_graph(nodes, "classifier", [tokens], [classes], weights)
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return bytes(made.SerializeToString())


class Server:
    """The model, and answers by text."""

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        model = make_model(5)
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0

    def answer(self, text: bytes) -> bytes:
        import numpy as np

        with self._lock:
            if (found := self._answers.get(text)) is not None:
                self.hits += 1
                self._answers.move_to_end(text)
                return found
        words = text.decode().split()
        tokens = np.array([[sum(map(ord, word)) * 31 % VOCABULARY for word in words]], np.int64)
        (classes,) = self._session.run(["classes"], {"tokens": tokens})
        odds = ", ".join(f'"{at}": {value:.4f}' for at, value in enumerate(classes[0]))
        answer = f'{{"length": {len(words)}, "classes": {{{odds}}}}}'.encode()
        with self._lock:
            self._answers[text] = answer
            while len(self._answers) > ANSWERS:
                self._answers.popitem(last=False)
        return answer

    def serve(self, connection: socket.socket) -> None:
        while (head := receive(connection, LENGTH.size)) is not None:
            text = receive(connection, LENGTH.unpack(head)[0])
            if text is None:
                return
            answer = self.answer(text)
            connection.sendall(LENGTH.pack(len(answer)) + answer)


def receive(connection: socket.socket, size: int) -> bytes | None:
    """None at the end of the stream."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def text_of(rng: random.Random, phase: int) -> bytes:
    if phase != 2 and rng.random() < 0.5:
        rng = random.Random(rng.randrange(POPULAR))  # one of those that come again
    count = rng.randint(300, 700) if phase == 2 else int(8 * 50 ** rng.random())
    return " ".join(f"w{int(rng.paretovariate(0.7)) % 99991:x}" for _ in range(count)).encode()


def ask(connection: socket.socket, count: int, phase: int, index: int) -> None:
    rng = random.Random(phase * 1000 + index)
    for _ in range(count):
        text = text_of(rng, phase)
        connection.sendall(LENGTH.pack(len(text)) + text)
        head = receive(connection, LENGTH.size)
        if head is None or receive(connection, LENGTH.unpack(head)[0]) is None:
            raise OSError("the server ended a connection")


def run_client(control: socket.socket, connections: list[socket.socket]) -> None:
    while (order := receive(control, ORDER.size)) is not None:
        count, phase = ORDER.unpack(order)
        threads = [
            threading.Thread(target=ask, args=(each, count // WORKERS, phase, index))
            for index, each in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        control.sendall(b"d")


def fork_client() -> tuple[int, socket.socket, list[socket.socket]]:
    """The client's pid, and the server's ends of the sockets."""
    pairs = [socket.socketpair() for _ in range(WORKERS + 1)]
    pid = os.fork()
    mine = 1 if pid == 0 else 0
    for pair in pairs:
        pair[1 - mine].close()
    control, *connections = (pair[mine] for pair in pairs)
    if pid == 0:
        status = 1
        try:
            run_client(control, connections)
            status = 0
        except OSError as error:
            print(f"inference_server: client: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    return pid, control, connections


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rest", type=float, default=None)
    asked = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    texts = int((800 if asked.quick else 24_000) * asked.scale)
    rest = asked.rest if asked.rest is not None else 0.5 if asked.quick else 4.0

    client, control, connections = fork_client()
    phases = Phases("inference_server", os.getpid(), time.process_time)
    phases.begin("warm-up")
    server = Server()
    for each in connections:
        threading.Thread(target=server.serve, args=(each,), daemon=True).start()

    def order(count: int, phase: int) -> None:
        control.sendall(ORDER.pack(count, phase))
        if receive(control, 1) != b"d":
            raise OSError("the client ended early")
        phases.worked(count // WORKERS * WORKERS)

    order(texts // 8, 0)
    phases.begin("load", measured=True)
    order(texts, 1)
    phases.begin("burst", measured=True)
    order(texts // 16, 2)
    phases.rest(rest)
    control.close()
    _, status = os.waitpid(client, 0)
    print(f"{phases.report()} hits={server.hits}", flush=True)
    return 1 if status else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ImportError, OSError) as error:
        print(f"inference_server: {error}", file=sys.stderr)
        sys.exit(1)
