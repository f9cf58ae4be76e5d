"""Kills a training program of several ranks at random moments, starts it again, and compares; prints TAP.

    cycles.py TRAINEE [--cycles N] [--seed S]

In each cycle one rank is killed, by itself at a random place of a random step or from outside at a random moment, the
rank that starts the others too. What is left must go on from its last file and end with the hash of the unbroken run of
so many ranks, in every rank."""

import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds for any start
PLACES = ('forward', 'backward')
STEPS = {2: 16, 3: 12}  # of a run of so many ranks


class Wrong(Exception):
    pass


def command(trainee, world, folder, *words):
    return [trainee, '--out', str(folder), '--devices', str(world), '--run', 'kept', '--keeps', str(folder / 'kept'),
            *words]


def hashes(trainee, world, folder, *words):
    """Of an undisturbed start: those that its ranks print."""
    done = subprocess.run(command(trainee, world, folder, *words), capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    found = re.findall(r'hash (\w+)', done.stdout)
    if done.returncode != 0 or len(found) != world:
        raise Wrong(f'it returned {done.returncode}: {done.stderr}')
    return set(found)


def children(pid):
    try:
        return [int(word) for task in pathlib.Path(f'/proc/{pid}/task').iterdir()
                for word in (task / 'children').read_text().split()]
    except OSError:
        return []


def killed(trainee, world, folder, draw, longest):
    """Whether a rank of a start was killed before all had ended."""
    if draw.random() < 0.5:
        fault = f'{draw.choice(PLACES)}:{draw.randrange(world)}:{draw.randrange(STEPS[world])}'
        done = subprocess.run(command(trainee, world, folder, '--fault', fault), capture_output=True, timeout=LIMIT,
                              check=False)
        return done.returncode != 0
    with subprocess.Popen(command(trainee, world, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        time.sleep(draw.uniform(0.3, 1) * longest)
        try:
            os.kill(draw.choice([process.pid, *children(process.pid)]), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
        try:
            return process.wait(LIMIT) != 0
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            raise Wrong('the others did not end') from late


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('trainee', type=os.path.abspath)
    parser.add_argument('--cycles', type=int, default=4)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10**6))
    words = parser.parse_args()
    draw = random.Random(words.seed)
    wanted, longest, count, tried, resumed, wrong = {}, {}, 0, 0, 0, []
    print('1..2')
    for world in STEPS:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            wanted[world] = hashes(words.trainee, world, pathlib.Path(folder))
            longest[world] = time.monotonic() - began
    alike = all(len(one) == 1 for one in wanted.values())
    print(f'{"ok" if alike else "not ok"} 1 - an unbroken run has one hash in all ranks', flush=True)
    while count < words.cycles and tried < 3 * words.cycles and len(wrong) < 5:
        tried += 1
        world = 2 if tried % 4 else 3
        with tempfile.TemporaryDirectory() as folder:
            try:
                count += killed(words.trainee, world, pathlib.Path(folder), draw, longest[world])
                files = list((pathlib.Path(folder) / 'kept').glob('*.safetensors'))
                found = hashes(words.trainee, world, pathlib.Path(folder), '--from', 'last')
                steps = len((pathlib.Path(folder) / 'rank0').read_text().splitlines())
                resumed += steps < STEPS[world]
                if files and steps == STEPS[world]:
                    raise Wrong(f'{len(files)} files were there, and it began anew')
                if found != wanted[world]:
                    raise Wrong(f'{world} ranks ended with {found}, and {wanted[world]} was to be')
            except (Wrong, subprocess.TimeoutExpired) as why:
                wrong.append(f'cycle {tried}: {why}')
    fine = not wrong and count >= words.cycles and resumed > 0
    print(f'{"ok" if fine else "not ok"} 2 - {count} of {tried} starts of several ranks were killed, and '
          f'{tried - len(wrong)} ended with the hash of the unbroken run, {resumed} of them from a file (--seed {words.seed})')
    for why in wrong:
        print(f'#   {why}')
    return 0 if alike and fine else 1


sys.exit(main())
