"""What a captured step of a small net pays for being watched, counted in instructions. Prints TAP, a line a fact.

    replay.py PROGRAM    the program made from replay.cpp"""

import shutil
import sys

from left_alone import counts_of

REPLAYS = 800  # by which the longer fit is longer
PARAMETERS = 20 * 32 + 32 + 32 * 2 + 2


def main() -> None:
    half, whole, unwatched, twice, asked = (counts_of(sys.argv[1])[number] for number in range(5))
    replay = (whole - half) / REPLAYS
    look = (whole - unwatched) / (2 * REPLAYS)
    guard = asked / 1000
    epoch = (twice - whole) / replay
    most = 2 * PARAMETERS + 400
    facts = [
        (guard <= replay / 100, f'the guard before a replay: at most one in a hundred of its instructions: '
                                f'{guard:.0f} of {replay:.0f}, {100 * guard / replay:.2f} %'),
        (look <= most, f'NonFinite::stop looks at {PARAMETERS} gradients: at most {most} instructions: '
                       f'{look:.0f} of {replay:.0f} of a replay, checks among them'),
        (epoch <= 40, f'an epoch more, whose first replay is checked: at most 40 replays: {epoch:.1f}'),
    ]
    for number, (holds, said) in enumerate(facts, 1):
        print(f'{"ok" if holds else "not ok"} {number} - {said}')
    print(f'1..{len(facts)}')


if shutil.which('valgrind'):
    main()
else:
    print('ok 1 - captured steps # SKIP valgrind is not installed\n1..1')
