"""How a peer is asked: a line of JSON on its input for each turn, a line of JSON on its output as the answer.

    {"workload": "tiny-mlp-adam", "warm_up": 200}              -> {"pytorch": 566.0, ...}, microseconds of a step
    {"workload": "tiny-mlp-adam", "steps": {"pytorch": 1500}}  -> {"pytorch": 540.0}

A variant answers a text instead of a number where it could not run. One thread, whatever the library would like."""

import json
import os
import sys

for name in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ[name] = '1'
os.environ['XLA_FLAGS'] = '--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1'
os.environ['JAX_PLATFORMS'] = 'cpu'

# The nets of the loops in C++: layers, then how many samples a batch has.
MLPS = {'tiny-mlp': ([32, 32, 32, 2], 8), 'mnist-mlp': ([784, 128, 128, 10], 64)}
BATCHES, CLASSES = 32, 10
# Nets of their own on pictures: samples in a batch, shape of one, batches.
PICTURES = {'mnist-cnn': (16, (1, 28, 28), BATCHES), 'resnet18': (8, (3, 32, 32), 8)}
GPT = {'characters': 65, 'block': 64, 'layers': 4, 'heads': 4, 'width': 128, 'batch': 12, 'batches': 8}
RATES = {'sgd': 1e-2, 'adam': 1e-3}
MOMENTUM = 0.9


def parts(workload: str) -> tuple[str, str]:
    """The net and the optimizer."""
    net, _, rule = workload.rpartition('-')
    return net, rule


def answer(version: str, variants: dict) -> None:
    """`variants[name](workload)` prepares a loop, a function that takes n steps and gives the microseconds of one, or
    None where it has no such."""
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # what a library prints is none of the answers
    print(version, file=out, flush=True)
    loops = {}
    for line in sys.stdin:
        asked, said = json.loads(line), {}
        for name, prepare in variants.items():
            key = (asked['workload'], name)
            try:
                if key not in loops:
                    loops[key] = prepare(asked['workload'])
                steps = asked.get('warm_up') or asked['steps'].get(name)
                if loops[key] and steps:
                    said[name] = loops[key](steps)
            except Exception as error:  # a peer that does not work here is named, and the others go on
                loops[key], said[name] = None, f'{type(error).__name__}: {error}'.splitlines()[0][:200]
        print(json.dumps(said), file=out, flush=True)
