"""The crash lab: a training program is killed, and its disk fails, at each place; what is left must go on; prints TAP.

    crash.py TRAINEE INTERPOSER [--kills N] [--seed S] [--all | --places N] [--flips N] [--rows] [--slow] [--only CASES]

TRAINEE trains a small model and goes on by itself from the newest file in its folder; INTERPOSER, loaded before the C
library, counts its calls to the file system and makes one of them go wrong (see interpose.cpp). Whatever happened, the
run has to end with the hash of one that nothing happened to, which other processes found out.

    --kills N    how many processes are killed at a random moment (default 30)
    --seed S     of the random moments (default: another one each time, which is printed)
    --all        the cases that begin at each call really do so at each; else a row of writes into one file, a tensor
                 each, is begun at its first two and at its last
    --places N   the cases that begin at each call begin at N of them: the first of each kind of call on each kind of
                 file, then random ones
    --flips N    also flips N bits, one at a time: each must be noticed
    --rows       the table of logged rows of a run that went on must be that of the unbroken run, too
    --slow       TRAINEE takes long to start: it is killed at random moments of its training
    --only CASES those whose function has such a name"""

import argparse
import concurrent.futures
import contextlib
import errno
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KILLED = -signal.SIGKILL
wanted: dict[str, str] = {}
options = argparse.Namespace()


class Skipped(Exception):
    """A case cannot be made here."""


class Run:
    """What a process of the trainee said, and how it ended."""

    def __init__(self, status: int, said: str):
        self.status, self.lines = status, said.splitlines()

    def all(self, word: str) -> list[str]:
        return [line.split(' ', 1)[1] for line in self.lines if line.startswith(word + ' ')]

    def one(self, word: str) -> str:
        return (self.all(word) or [''])[-1]

    def told(self) -> str:
        return f'status {self.status}: ' + ' | '.join(self.lines[-3:])


def run(folder: pathlib.Path, *words: str, prepare=None, **faults: object) -> Run:
    environment = dict(os.environ)
    if faults:
        environment |= {'LD_PRELOAD': options.interposer, 'CRASH_ROOT': str(folder)}
        environment |= {f'CRASH_{name.upper()}': str(value) for name, value in faults.items()}
    try:
        done = subprocess.run([options.trainee, *(words or ('fit', str(folder)))], env=environment, capture_output=True,
                              text=True, timeout=60, preexec_fn=prepare)
    except subprocess.TimeoutExpired:
        return Run(99, 'error it did not end within a minute')
    return Run(done.returncode, done.stdout)


@contextlib.contextmanager
def scratch():
    # A kill takes nothing from memory that was handed to the kernel, so a disk in memory serves, and is faster.
    memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix='fulgurite-crash-', dir=memory)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ended_right(done: Run, rows: bool = True):
    """What is wrong with a run that nothing disturbed any more. Where the disk did not take a row, as an Error has
    told, that row is not there."""
    if done.status != 0:
        yield f'did not go on: {done.told()}'
    elif done.one('hash') != wanted['hash']:
        yield f'ended with another hash, from step {done.one("from")}'
    elif options.rows and rows and done.one('rows') != wanted['rows']:
        yield f'ended with other rows, from step {done.one("from")}'


def kept(folder: pathlib.Path) -> str:
    """The checkpoints of a run, and what the link leads to."""
    return ' '.join(sorted(f'{file.name} -> {os.readlink(file)}' if file.is_symlink() else file.name
                           for file in (folder / 'files').glob('*.safetensors')))


def goes_on(folder: pathlib.Path, before: list[Run]):
    """What is wrong with what processes have left: another one has to end as if nothing had been. It begins no earlier
    than at the last file that they had been told was written, and finds no file that is damaged. Where they were
    killed, the files that it leaves are those of the unbroken run."""
    last = max([int(step) for one in before for step in one.all('saved')], default=0)
    done = run(folder, 'fit', str(folder), 'look')  # it looks before it trains, and afterwards
    if done.all('damaged'):
        yield f'left a damaged file: {done.one("damaged")}'
    yield from ended_right(done, not any('append a row' in one.told() for one in before))
    if int(done.one('from') or 0) < last:
        yield f'lost a file: step {last} was saved, the next run began at {done.one("from")}'
    killed = all(one.status in (0, KILLED) for one in before)
    if killed and done.status == 0 and kept(folder) != wanted['files']:
        yield f'left the files {kept(folder)}, not {wanted["files"]}'
    # A killed process's temporaries go when another one writes into their folder; each run has a log folder of its own.
    after = Run(0, '\n'.join(done.lines[done.lines.index('trained yes'):] if 'trained yes' in done.lines else []))
    for left in after.all('temporary'):
        if os.path.dirname(left) in (str(folder / 'files'), done.one('logs')):
            yield f'left {left}'


def fair_end(done: Run):
    """A program whose disk failed says so in an Error, or did not need the call and ends as always."""
    if done.status == 3 and '[fulgurite.' in done.one('error'):
        return
    if done.status != 0 or done.one('hash') != wanted['hash']:
        yield f'is no Error of the library: {done.told()}'


def kind_of(call: list[str]) -> str:
    """Its name, and what kind of file it is about: that of a checkpoint, its temporary, the link, the log, a folder."""
    name = os.path.basename(call[2])
    kinds = [('.tmp', 'temporary'), ('last', 'last'), ('.safetensors', 'checkpoint'), ('.csv', 'rows'), ('', 'other')]
    return f'{call[1]} {next(kind for part, kind in kinds if part in name)}'


def places(log: list[list[str]]) -> list[int]:
    """The numbers of the calls at which something is to happen."""
    if options.places:
        generator = random.Random(options.seed)
        of_kind: dict[str, list[int]] = {}
        for number, call in enumerate(log, 1):
            of_kind.setdefault(kind_of(call), []).append(number)
        named = [generator.choice(numbers) for numbers in of_kind.values()]
        generator.shuffle(named)
        others = generator.sample(range(1, len(log) + 1), min(options.places, len(log)))
        return sorted(list(dict.fromkeys(named + others))[:options.places])
    tensors = [f'{call[1]} {call[2]}' if call[1] == 'pwrite64' else str(number) for number, call in enumerate(log)]
    return [number for number, it in enumerate(tensors, 1)
            if options.all or it not in tensors[max(0, number - 3):number - 1] or it not in tensors[number:number + 1]]


def many(cases, one) -> tuple[int, list[str]]:
    """one(case) yields what is wrong; two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: [f'{case}: {why}' for why in one(case)], cases))
    return len(found), [why for whys in found for why in whys]


def log_of(folder: pathlib.Path, killed_at: int = 0) -> list[list[str]]:
    """The calls of an undisturbed run, which may go on from one that was killed: number, name, path (or two, with an
    arrow between them), result."""
    target = folder / 'run'
    if killed_at:
        run(target, kill_at=killed_at)
    run(target, log=folder / 'log')
    return [line.split(' ') for line in (folder / 'log').read_text().splitlines()]


# ---- the cases: each returns how many it tried, what was wrong, and what it is called --------------------------------
def unbroken():
    with scratch() as a, scratch() as b:
        first, second = run(a / 'run'), run(b / 'run')
        wanted.update(hash=first.one('hash'), rows=first.one('rows'), files=kept(a / 'run'))
    wrong = list(ended_right(second)) if first.status == 0 and wanted['hash'] else [first.told()]
    return 2, wrong, 'runs that nothing happens to end with one hash'


def kills_at(fault: str):
    """SIGKILL in place of each call, or in the middle of each write."""
    def one(n: int):
        with scratch() as folder:
            killed = run(folder / 'run', **{fault: n})
            if killed.status != KILLED:
                yield f'was not killed: {killed.told()}'
            yield from goes_on(folder / 'run', [killed])
    with scratch() as folder:
        calls = places(log_of(folder))
    return many(calls, one)


def killed_at_calls():
    return *kills_at('kill_at'), 'places before a call to the file system, killed there'


def killed_in_writes():
    return *kills_at('tear_at'), 'the same, where a write has done half of its work'


def killed_twice():
    with scratch() as folder:
        calls = len(log_of(folder))

    def one(part: int):
        with scratch() as folder:
            before = [run(folder / 'run', kill_at=part * calls // 12), run(folder / 'run', kill_at=calls // 4)]
            kills.append(sum(each.status == KILLED for each in before))
            yield from goes_on(folder / 'run', before)
    kills: list[int] = []
    _, wrong = many(range(1, 12), one)
    return sum(kills), wrong, 'kills in 11 runs, which were killed again while they went on'


def failing(name: str, **faults: str):
    """A fault at each call in turn, `{}` is its number."""
    def one(n: int):
        with scratch() as folder:
            disturbed = run(folder / 'run', **{word: text.format(n) for word, text in faults.items()})
            yield from fair_end(disturbed)
            yield from goes_on(folder / 'run', [disturbed])
    with scratch() as folder:
        calls = places(log_of(folder))
    return *many(calls, one), name


def each_fails():
    return failing('calls that fail once (input/output error)', fail_at=f'{{}}:{errno.EIO}')


def short_writes():
    return failing('calls, a write takes half of its bytes', short_at='{}')


def full_from():
    return failing('calls from which on the disk is full', fail_from=f'{{}}:{errno.ENOSPC}:g')


def over_quota_from():
    return failing('calls from which the quota is used up', fail_from=f'{{}}:{errno.EDQUOT}:g')


def read_only_from():
    return failing('calls from which on the disk is read-only', fail_from=f'{{}}:{errno.EROFS}:gc')


def going_on_fails():
    """A call fails in a run that goes on from a file."""
    with scratch() as folder:
        killed_at = int(0.6 * len(log_of(folder)))

    def one(n: int):
        with scratch() as here:  # made here: in a copy, the log of the run would be another folder's
            target = here / 'run'
            run(target, kill_at=killed_at)
            disturbed = run(target, fail_at=f'{n}:{errno.EIO}')
            yield from fair_end(disturbed)
            yield from goes_on(target, [disturbed])
    with scratch() as folder:
        again = places(log_of(folder, killed_at))
    return *many(again, one), 'calls of a run that goes on, each fails once'


def small_files():
    """No file may become longer than so many bytes; the signal of it is ignored, as a batch system's is."""
    def one(size: int):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with scratch() as folder:
            disturbed = run(folder / 'run', prepare=limit)
            yield from fair_end(disturbed)
            yield from goes_on(folder / 'run', [disturbed])
    return *many([0, 1, 100, 4096, 10000, 16000, 16300, 100000], one), 'limits of the length of files (RLIMIT_FSIZE)'


def small_disk():
    """A real disk of 1 MB, all but so many kilobytes of which are taken."""
    def one(free: int):
        with scratch() as folder:
            mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', folder], capture_output=True)
            if mounted.returncode != 0:
                raise Skipped('no right to mount a small disk')
            try:
                (folder / 'ballast').write_bytes(bytes(1024 * (1024 - free)))
                disturbed = run(folder / 'run')
                yield from fair_end(disturbed)
                (folder / 'ballast').unlink()
                yield from goes_on(folder / 'run', [disturbed])
            finally:
                subprocess.run(['umount', '-l', folder], check=False)
    return *many([0, 4, 8, 12, 20, 24, 32, 36, 40, 44, 64], one), 'fillings of a disk of 1 MB'


training: list[float] = []  # seconds from its first line to its end, of one that was not killed


def killed_after(folder: pathlib.Path, seconds: float | None) -> Run:
    """A process that is killed so many seconds after it started; a slow one, after training began."""
    process = subprocess.Popen([options.trainee, 'fit', folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    first = process.stdout.readline() if options.slow else ''
    began = time.monotonic()
    try:
        said, _ = process.communicate(timeout=seconds)
        training.append(time.monotonic() - began)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    return Run(process.returncode, first + said)


def random_kills():
    generator = random.Random(options.seed)
    with scratch() as folder:
        began = time.monotonic()
        killed_after(folder / 'run', None)
        length = time.monotonic() - began
    if options.slow:
        length = training[0]

    def one(number: int):
        """Killed until it has ended, or three times."""
        moments = random.Random(options.seed + number)
        with scratch() as folder:
            before = []
            for _ in range(3):
                before.append(killed_after(folder / 'run', moments.uniform(0, length)))
                if before[-1].status != KILLED:
                    yield from ended_right(before[-1])
                    break
            killed.append(sum(each.status == KILLED for each in before))
            yield from goes_on(folder / 'run', before)

    killed: list[int] = []
    wrong: list[str] = []
    batch = 0
    while sum(killed) < options.kills and len(wrong) < 10 and batch < 10 * options.kills:
        step = min(64, max(2, (options.kills - sum(killed)) // 2))
        wrong += many([generator.randrange(10**9) for _ in range(step)], one)[1]
        batch += step
    return sum(killed), wrong, f'processes killed at random moments (--seed {options.seed})'


def in_order():
    """A file's bytes are on the disk before its name is, and the name before the program is told that it was saved:
    what a power cut can take. Read from the calls of an undisturbed run."""
    with scratch() as folder:
        calls = log_of(folder)
    wrong, dirty, names = [], set(), 0
    unsynced: dict[str, str] = {}
    for _, name, path, *rest in calls:
        if name in ('write', 'pwrite64'):
            dirty.add(path)
        elif name == 'fsync':
            dirty.discard(path)
            unsynced = {file: of for file, of in unsynced.items() if of != path}
        elif name in ('rename', 'renameat2') and rest[1].endswith(('.safetensors', '.yaml')):
            names += 1
            if path in dirty:
                wrong.append(f'{rest[1]} got its name before its bytes were on the disk')
            if unsynced:
                wrong.append(f'{next(iter(unsynced))} was followed by another file before its folder was on the disk')
            if path.endswith('.tmp') and not os.path.basename(rest[1]).startswith('last'):
                unsynced[rest[1]] = os.path.dirname(rest[1])
    wrong += [f'the folder of {file} is never on the disk' for file in unsynced]
    return names, wrong, 'files whose bytes are on the disk before their names, and these before the next file'


def newest_files(folder: pathlib.Path) -> list[pathlib.Path]:
    files = [file for file in (folder / 'run' / 'files').glob('*.safetensors') if not file.is_symlink()]
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)


def cut_files():
    with scratch() as folder:
        run(folder / 'run')
        done = run(folder, 'cuts', str(newest_files(folder)[-1]), '1000')
    wrong = [] if done.one('read') == '0' else [f'{done.one("read")} cut files were read: {done.told()}']
    return int(done.one('cuts') or 0), wrong, 'cut files (each byte of the header, 1000 places of the data) are refused'


def cut_newest():
    """Where the newest file is damaged the one before it is taken, which is said."""
    def one(part: float):
        with scratch() as folder:
            run(folder / 'run', kill_at=int(0.9 * calls))
            first = newest_files(folder)[-1]
            last = first.with_name('last.safetensors')
            # `last` is newer, and is cut; the file that it was a link to is whole.
            last.unlink(missing_ok=True)
            last.write_bytes(first.read_bytes()[:int(part * first.stat().st_size)])
            done = run(folder / 'run')
            yield from ended_right(done)
            if not any('fulgurite.resume.damaged' in warning for warning in done.all('warning')):
                yield 'it was not said that the newest file is damaged'
            if done.one('from') == '0':
                yield 'the file before it was not taken'
    with scratch() as folder:
        calls = len(log_of(folder))
    return *many([0, 0.01, 0.3, 0.9, 0.95, 0.999], one), 'damaged newest files: the one before is taken, which is said'


def at_once():
    """50 processes that start at once in one folder get 50 log folders, and none damages what is another's."""
    count = 50
    with scratch() as folder:
        reading, writing = os.pipe()
        processes = [subprocess.Popen([options.trainee, 'fit', folder / 'run', 'wait'], stdin=reading, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(count)]
        os.close(reading)
        os.write(writing, b'x' * count)
        os.close(writing)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            said = list(pool.map(lambda process: process.communicate()[0], processes))
        done = [Run(process.returncode, text) for process, text in zip(processes, said)]
        wrong = [one.told() for one in done if one.status != 0 or one.one('hash') != wanted['hash']]
        folders = {one.one('logs') for one in done}
        if len(folders) != count:
            wrong.append(f'{count} processes have {len(folders)} log folders')
        wrong += [f'damaged: {name}' for name in run(folder, 'look', str(folder)).all('damaged')]
    return count, wrong, 'processes that start at once in one folder have as many log folders'


def flipped():
    with scratch() as folder:
        run(folder / 'run')
        done = run(folder, 'flips', str(newest_files(folder)[-1]), str(options.flips))
    wrong = [] if done.one('read') == '0' else [f'{done.one("read")} were read all the same: {done.told()}']
    return int(done.one('flips') or 0), wrong, 'flipped bits are noticed'


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument('trainee', type=os.path.abspath)
    parser.add_argument('interposer', type=os.path.abspath)
    parser.add_argument('--kills', type=int, default=30)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--places', type=int, default=0)
    parser.add_argument('--slow', action='store_true')
    parser.add_argument('--flips', type=int, default=0)
    parser.add_argument('--rows', action='store_true')
    parser.add_argument('--only', default='')
    parser.parse_args(namespace=options)
    cases = [killed_at_calls, killed_in_writes, killed_twice, each_fails, short_writes, full_from, over_quota_from,
             read_only_from, going_on_fails, small_files, small_disk, random_kills, in_order, cut_files, cut_newest,
             at_once]
    cases = [unbroken, *(case for case in [*cases, *([flipped] if options.flips else [])]
                         if re.search(options.only, case.__name__))]
    print(f'1..{len(cases)}')
    bad = False
    for number, case in enumerate(cases, 1):
        began = time.monotonic()
        try:
            tried, wrong, name = case()
        except Skipped as why:
            print(f'ok {number} - {case.__name__} # SKIP {why}', flush=True)
            continue
        bad = bad or bool(wrong) or tried == 0
        print(f'{"not ok" if wrong or tried == 0 else "ok"} {number} - {tried} {name}', flush=True)
        print(f'# {len(wrong)} wrong, {time.monotonic() - began:.1f} s', flush=True)
        for why in wrong[:5]:
            print(f'#   {why}', flush=True)
    return bad


sys.exit(main())
