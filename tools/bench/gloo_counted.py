"""Instructions of a training step of two processes: the strategy's against those of the loop over c10d by hand (bar W8).

Rank 0 runs under callgrind, once for few steps and once for more, so that what is not a step cancels out; rank 1 runs
as it is. Unlike microseconds they do not depend on when a machine wakes a thread that waits for the other process.
    python gloo_counted.py build/gcc-bench/benchmarks/gloo
"""

import os
import re
import shutil
import socket
import subprocess
import sys

BAR = 1.02
WORKLOADS = ('tiny-mlp-sgd', 'mnist-mlp-sgd', 'mnist-mlp-adam')
LOOPS = ('by hand', 'strategy', 'strategy, fast')
FEW, MORE = 50, 150


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(('127.0.0.1', 0))
        return any_port.getsockname()[1]


def instructions(program: str, loop: str, workload: str, steps: int) -> int:
    words = [program, '--one', loop, workload, str(steps)]
    place = {
        'MASTER_ADDR': '127.0.0.1',
        'MASTER_PORT': str(free_port()),
        'WORLD_SIZE': '2',
        'LOCAL_WORLD_SIZE': '2',
        'OMP_NUM_THREADS': '1',
    }
    ranks = [dict(os.environ, **place, RANK=rank, LOCAL_RANK=rank) for rank in '01']
    other = subprocess.Popen(words, env=ranks[1], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    counted = subprocess.run(
        ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', *words],
        env=ranks[0],
        capture_output=True,
        text=True,
    )
    _, said = other.communicate()
    found = re.search(r'Collected : (\d+)', counted.stderr)
    if not found or counted.returncode or other.returncode:
        sys.exit(f'{" ".join(words)} failed:\n{counted.stderr[-2000:]}\n{said[-2000:]}')
    return int(found[1])


def main(program: str) -> int:
    if not shutil.which('valgrind'):
        sys.exit('valgrind is not installed, so no instruction is counted: apt-get install valgrind')
    missed = False
    print(f'\n{"workload":<22} {"loop":<22} {"instructions a step":>20} {"to by hand":>12}')
    for workload in WORKLOADS:
        by_hand = 0.0
        for loop in LOOPS:
            few, more = (instructions(program, loop, workload, steps) for steps in (FEW, MORE))
            each = (more - few) / (MORE - FEW)
            by_hand = by_hand or each
            share = each / by_hand
            bad = loop == 'strategy' and share > BAR
            missed |= bad
            said = '' if loop != 'strategy' else f'  <= {BAR} {"missed" if bad else "met"}'
            name = workload if loop == LOOPS[0] else ''
            print(f'{name:<22} {loop:<22} {each:>20,.0f} {share:>12.3f}{said}', flush=True)
    return int(missed)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
