"""What calls pay that faster matrix products leave alone, counted in instructions. The allocator takes some hundred
more or less from one place to the next, as `add` shows, which nobody touches. Prints TAP, a line a fact.

    left_alone.py PROGRAM    the program made from left_alone.cpp"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = 1000
# How many instructions a call may take more than before a scope was ever opened: after one, and inside one. Inside the
# product is looked at: its sizes first, then its types and its strides.
MOST = {'mm of doubles': (200, 200), 'mm of strided numbers': (200, 350), 'mm that the rule leaves': (200, 300),
        'add': (200, 200)}


def counts_of(program: str) -> dict[int, int]:
    """What main() paid for each of its functions `counted`, in instructions."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, 'out')
        done = subprocess.run(
            ['valgrind', '--tool=callgrind', '--compress-strings=no', f'--callgrind-out-file={out}', program],
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f'Bail out! {program} ended with status {done.returncode}: {done.stderr[-500:]}')
        called = re.findall(r'cfn=.*counted<(\d+)>.*\ncalls=1 .*\n\S+ (\d+)', out.read_text())
    # g++ makes functions of parts of these, of the same name, which callgrind lists in any order.
    most: dict[int, int] = {}
    for number, cost in called:
        most[int(number)] = max(int(cost), most.get(int(number), 0))
    return most


def main() -> None:
    taken, number = {case: cost / CALLS for case, cost in counts_of(sys.argv[1]).items()}, 0
    for kind, (name, bounds) in enumerate(MOST.items()):
        for place, most in zip((1, 2), bounds):
            number += 1
            more = taken[10 * place + kind] - taken[kind]
            said = 'ok' if more <= most else 'not ok'
            where = ('after', 'inside')[place - 1]
            print(f'{said} {number} - {name}, {where} a scope: at most {most} instructions more: '
                  f'{more:.1f} over {taken[kind]:.1f}')
    print(f'1..{number}')


if __name__ != '__main__':
    pass  # replay.py counts in the same way
elif shutil.which('valgrind'):
    main()
else:
    print('ok 1 - calls that are left alone # SKIP valgrind is not installed\n1..1')
