"""examples/export.cpp: what was exported predicts as the model did in training, which the program itself compares;
prints TAP.

    export.py EXPORT    EXPORT: the program"""

import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
if not PROGRAM.exists():
    print('1..0 # SKIP the examples are not built')
    sys.exit()

print('1..2')
with tempfile.TemporaryDirectory() as name:
    done = subprocess.run([PROGRAM, '--fast', '--drawn', '--out', name], cwd=name, capture_output=True, text=True,
                          timeout=300)
    print('ok 1 - the export predicts as the model' if done.returncode == 0 else f'not ok 1 - {done.stderr}')
    left = sorted(path.name for path in pathlib.Path(name).iterdir())
    good = left == ['best.safetensors', 'digits.pt']
    print('ok 2 - a checkpoint and the export are left' if good else f'not ok 2 - there are {left}')
