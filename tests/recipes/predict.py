"""examples/predict.cpp: a program without the training table predicts what the training one does; prints TAP.

    predict.py PREDICT    PREDICT: the program"""

import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
if not PROGRAM.exists():
    print('1..0 # SKIP the examples are not built')
    sys.exit()


def run(folder: pathlib.Path, *words: str) -> list[str]:
    done = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f'Bail out! {words}: {done.stderr}')
    return done.stdout.split()


print('1..3')
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    houses = ['area,zip,price'] + [f'{i % 90 + 10},z{i % 3},{2 * (i % 90 + 10) + i % 3}' for i in range(300)]
    (folder / 'houses.csv').write_text('\n'.join(houses) + '\n')
    (folder / 'new.csv').write_text('zip,area\nz2,40\nz0,\nnone,12\n\nz1,99\n')
    trained = run(folder, '--train', 'houses.csv', '--rows', 'new.csv')
    print('ok 1 - one price for each row' if len(trained) == 5 else f'not ok 1 - one price for each row: {trained}')
    (folder / 'houses.csv').unlink()
    alone = run(folder, '--rows', 'new.csv')
    print('ok 2 - without the table the same bits' if alone == trained else f'not ok 2 - {alone}, {trained}')
    more = ['area,zip,price'] + [f'{i % 9 + 1000},z{i % 3},7' for i in range(300)]
    (folder / 'other.csv').write_text('\n'.join(more) + '\n')
    run(folder, '--train', 'other.csv', '--file', 'other.safetensors', '--epochs', '1')
    print('ok 3 - another table makes another file' if run(folder, '--rows', 'new.csv') == trained else 'not ok 3')
