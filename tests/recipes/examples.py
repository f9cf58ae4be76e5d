"""Examples that check themselves: what examples/export.cpp exports predicts as the model did in training;
examples/embedded.cpp trains inside its control loop and prints what that took. Prints TAP.

    examples.py EXPORT EMBEDDED    the programs"""

import pathlib
import re
import subprocess
import sys
import tempfile

EXPORT, EMBEDDED = (pathlib.Path(program).resolve() for program in sys.argv[1:])
if not EXPORT.exists() or not EMBEDDED.exists():
    print('1..0 # SKIP the examples are not built')
    sys.exit()


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=name, capture_output=True, text=True, timeout=300)


print('1..3')
with tempfile.TemporaryDirectory() as name:
    done = run(EXPORT, '--fast', '--drawn', '--out', name)
    print('ok 1 - the export predicts as the model' if done.returncode == 0 else f'not ok 1 - {done.stderr}')
    left = sorted(path.name for path in pathlib.Path(name).iterdir())
    good = left == ['best.safetensors', 'digits.pt']
    print('ok 2 - a checkpoint and the export are left' if good else f'not ok 2 - there are {left}')
    done = run(EMBEDDED, '--fast', '--seconds', '2')
    errors = re.search(r': ([0-9.]+) at first, ([0-9.]+) at the end', done.stdout)
    good = done.returncode == 0 and errors and float(errors[2]) < float(errors[1]) and 'longest' in done.stdout
    print('ok 3 - a net learns inside of a control loop' if good else f'not ok 3 - {done.stdout} {done.stderr}')
