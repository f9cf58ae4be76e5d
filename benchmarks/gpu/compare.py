"""Runs the loops on a GPU, one program after the other, and prints one table and the bars of docs/performance.md.

    compare.py PROGRAM [WORKLOAD...]   PROGRAM: the built loops.cpp, which may come from another machine

LibTorch's libraries are those of the Python that runs this; what it cannot import is left out, by name.
"""

import importlib.util
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LOOPS = ('by hand', 'trainer', 'fast', 'captured', 'captured fastest', 'captured, 8 a replay',
         'pytorch', 'pytorch fused', 'pytorch graph', 'torch.compile', 'jax', 'jax scan')
# bar, loop, beside loop, at most so many times its microseconds
BARS = (('G1', 'captured', 'pytorch graph', 1.0), ('G2', 'captured fastest', 'jax scan', 2.0),
        ('G3', 'trainer', 'by hand', 1 / 0.98))
P13, P13_OF = 4, ('mlp', 'cnn')


def lines_of(command: list[str], environment: dict[str, str]) -> tuple[list[list[str]], int]:
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    return [line.split('\t') for line in done.stdout.splitlines() if '\t' in line], done.returncode


def main() -> int:
    program, workloads = sys.argv[1], sys.argv[2:]
    environment = dict(os.environ)
    torch = importlib.util.find_spec('torch')
    if torch:
        library = pathlib.Path(torch.origin).parent / 'lib'
        environment['LD_LIBRARY_PATH'] = f'{library}:{environment.get("LD_LIBRARY_PATH", "")}'
    lines, code = lines_of([program, *workloads], environment)
    if code == 77:
        print('nothing was measured: LibTorch sees no GPU')
        return 0
    for module, peer in (('torch', 'with_pytorch.py'), ('jax', 'with_jax.py')):
        if not importlib.util.find_spec(module):
            print(f'left out: this Python cannot import {module}')
        elif module == 'torch' or not workloads or 'mlp' in workloads:
            lines += lines_of([sys.executable, str(HERE / peer), *(workloads if module == 'torch' else [])],
                              environment)[0]
    taken: dict[str, dict[str, float]] = {}
    for workload, loop, microseconds, *note in lines:
        taken.setdefault(workload, {})[loop] = float(microseconds)
        if note:
            print(f'{workload}, {loop}: {note[0]}')
    print('| net | ' + ' | '.join(LOOPS) + ' |\n|---|' + '---:|' * len(LOOPS))
    for workload, of in taken.items():
        print(f'| {workload} | ' + ' | '.join(f'{of[loop]:.1f}' if loop in of else '' for loop in LOOPS) + ' |')
    for workload, of in taken.items():
        for bar, loop, beside, most in BARS:
            if loop in of and beside in of and not math.isnan(of[beside]):
                times = of[loop] / of[beside]
                print(f'{bar} {workload}: {loop} / {beside} {times:.3f} <= {most:.3f} '
                      f'{"met" if times <= most else "missed"}')
        if workload in P13_OF:
            times = of['trainer'] / of['captured']
            print(f'P13 {workload}: trainer / captured {times:.2f} >= {P13} {"met" if times >= P13 else "missed"}')
    return code


if __name__ == '__main__':
    sys.exit(main())
