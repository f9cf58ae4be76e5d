"""What a captured step of a small net pays for being watched, counted in instructions. Prints TAP, a line a fact.

    replay.py PROGRAM    the program made from replay.cpp"""

import shutil
import sys

from left_alone import counts_of

REPLAYS = 800  # by which the longer fit is longer
PARAMETERS = 20 * 32 + 32 + 32 * 2 + 2
# One in a hundred of what a replay of this net takes by LibTorch's operators alone. Functions in their place made the
# replay shorter, which is no reason to ask more of the guard.
MOST_OF_GUARD = 1149
MOST_OF_EPOCH = 40 * 114_900


def main() -> None:
    counts = counts_of(sys.argv[1])
    half, whole, unwatched, twice, asked = (counts[number] for number in range(5))
    replay = (whole - half) / REPLAYS
    look = (whole - unwatched) / (2 * REPLAYS)
    guard = asked / 1000
    epoch = twice - whole
    most = 2 * PARAMETERS + 400
    facts = [
        (guard <= MOST_OF_GUARD, f'the guard before a replay: at most {MOST_OF_GUARD} instructions: '
                                 f'{guard:.0f} beside {replay:.0f} of the replay'),
        (look <= most, f'NonFinite::stop looks at {PARAMETERS} gradients: at most {most} instructions: '
                       f'{look:.0f} of {replay:.0f} of a replay, checks among them'),
        (epoch <= MOST_OF_EPOCH, f'an epoch more, whose first replay is checked: at most {MOST_OF_EPOCH}: {epoch:.0f}'),
    ]
    for number, (holds, said) in enumerate(facts, 1):
        print(f'{"ok" if holds else "not ok"} {number} - {said}')
    print(f'1..{len(facts)}')


if shutil.which('valgrind'):
    main()
else:
    print('ok 1 - captured steps # SKIP valgrind is not installed\n1..1')
