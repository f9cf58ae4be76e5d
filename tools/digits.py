"""Handwritten digits for the examples, into data/: MNIST where it can be had, else the 1,797 of scikit-learn's wheel.

    digits.py [--download]     --download asks for MNIST although other digits are there

Nothing is fetched where digits are there already: in data/mnist, ../shared/data/mnist or data/digits. What was fetched
is compared with its checksum before it gets its name, so that a later run never meets a half of it. Neither source may
make a person wait: 10 seconds to connect, and as long for a piece. Of two runs at once the second waits until the first
has fetched. FULGURITE_MNIST names another address that MNIST's four files lie under. Exit status 1: there are no
digits."""

import argparse
import contextlib
import fcntl
import hashlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable

PATIENCE = 10  # seconds
ADDRESS = 'https://ossci-datasets.s3.amazonaws.com/mnist/'  # where torchvision fetches them
MNIST = {'train-images-idx3-ubyte.gz': (9912422, '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609'),
         'train-labels-idx1-ubyte.gz': (28881, '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c'),
         't10k-images-idx3-ubyte.gz': (1648877, '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6'),
         't10k-labels-idx1-ubyte.gz': (4542, 'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6')}
WHEEL, MEMBER = 'scikit-learn>=1.3,<2', 'sklearn/datasets/data/digits.csv.gz'
DIGITS = '09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22'
MNIST_FOLDERS = ('data/mnist', '../shared/data/mnist')


class Unavailable(Exception):
    """What was asked for cannot be had here, and why."""


def say(text: str) -> None:
    print(f'== {text}', flush=True)


def keep(content: bytes, checksum: str, file: pathlib.Path) -> None:
    if hashlib.sha256(content).hexdigest() != checksum:
        raise Unavailable(f'{file.name} came with other bytes than expected ({len(content)} of them)')
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f'{file.name}.{os.getpid()}.part')
    try:
        part.write_bytes(content)
        part.replace(file)
    finally:  # the disk may be full
        part.unlink(missing_ok=True)


def too_long(*_) -> None:
    raise TimeoutError


def download(address: str, size: int) -> bytes:
    """The bytes at an address, with progress where a person looks on."""
    content = bytearray()
    try:
        signal.signal(signal.SIGALRM, too_long)  # a name may stand for many machines, and none of them answer
        signal.alarm(PATIENCE)
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            signal.alarm(0)
            while piece := answer.read(1 << 16):
                content += piece
                if sys.stdout.isatty():
                    print(f'\r   {address.rsplit("/", 1)[1]}: {100 * len(content) // size} %', end='', flush=True)
                if len(content) > size:
                    break
    except (OSError, ValueError) as error:  # no name, no connection, no such page, too long a silence, no address
        why = getattr(error, 'reason', error)
        raise Unavailable(f'no answer for {PATIENCE} seconds' if isinstance(why, TimeoutError) else f'{why}') from error
    except http.client.HTTPException as error:  # no HTTP, such as a network's sign-in page may be, or half an answer
        raise Unavailable(f'the answer is no sound HTTP: {error!r}'[:200]) from error
    finally:
        signal.alarm(0)
        if sys.stdout.isatty() and content:
            print()
    return bytes(content)


def holds(file: pathlib.Path, checksum: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == checksum


def mnist(folder: pathlib.Path) -> None:
    """Fetches what the folder lacks. Until all of it is there it lies aside: two files in a folder are an error."""
    address = os.environ.get('FULGURITE_MNIST', ADDRESS).rstrip('/') + '/'
    missing = [name for name, (_, checksum) in MNIST.items() if not holds(folder / name, checksum)]
    if not missing:
        say(f'{folder} holds MNIST already')
        return
    say('fetching MNIST (11.6 MB)')
    aside = folder.with_name(folder.name + '.part')
    for name in missing:
        size, checksum = MNIST[name]
        if not holds(aside / name, checksum):
            keep(download(address + name, size), checksum, aside / name)
    for left in aside.glob('*.part'):  # by a run that was killed
        left.unlink()
    if not folder.exists():
        aside.replace(folder)
        return
    for name in sorted(missing, key=lambda name: 'images' in name):  # labels first: without images they are no digits
        (aside / name).replace(folder / name)
    shutil.rmtree(aside)


def digits(folder: pathlib.Path) -> None:
    """A wheel is a zip file: it is fetched as pip fetches all of them, and one file of it is kept."""
    say("fetching scikit-learn's wheel (9 MB), which carries 1,797 handwritten digits")
    with tempfile.TemporaryDirectory() as there:
        words = [sys.executable, '-m', 'pip', 'download', '--disable-pip-version-check', '--quiet', '--no-deps',
                 '--only-binary=:all:', '--timeout', str(PATIENCE), '--retries', '1', '--dest', there, WHEEL]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired as error:
            raise Unavailable('pip was not done after five minutes') from error
        wheels = list(pathlib.Path(there).glob('*.whl'))
        if done.returncode != 0 or not wheels:
            raise Unavailable((done.stderr.strip().splitlines() or ['pip brought no wheel'])[-1])
        with zipfile.ZipFile(wheels[0]) as wheel:
            if MEMBER not in wheel.namelist():
                raise Unavailable(f'{wheels[0].name} has no {MEMBER}')
            keep(wheel.read(MEMBER), DIGITS, folder / 'digits.csv.gz')


def pairs(folder: pathlib.Path) -> bool:
    """Images with their labels, and nothing that lacks the other: the programs refuse such a folder."""
    parts = [[any(file.is_file() for file in folder.glob(f'{part}-{kind}-ubyte*'))
              for kind in ('images?idx3', 'labels?idx1')] for part in ('train', 't10k')]
    return any(map(all, parts)) and all(images == labels for images, labels in parts)


def there() -> bool:
    return any(pairs(pathlib.Path(folder)) for folder in MNIST_FOLDERS) or any(
        file.is_file() for file in pathlib.Path('data/digits').glob('digits.csv*'))


@contextlib.contextmanager
def alone(data: pathlib.Path):
    """One run at a time fetches. Where a folder cannot be made or locked, whoever writes into it says why."""
    with contextlib.ExitStack() as kept:
        with contextlib.suppress(OSError):
            data.mkdir(exist_ok=True)
            number = os.open(data, os.O_RDONLY)
            kept.callback(os.close, number)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say('another run is fetching digits: waiting for it')
                fcntl.flock(number, fcntl.LOCK_EX)
        yield


def fetched(what: str, fetch: Callable[[pathlib.Path], None], folder: str) -> bool:
    try:
        fetch(pathlib.Path(folder))
        return True
    except (Unavailable, OSError, zipfile.BadZipFile, zlib.error) as why:
        say(f'{what} cannot be fetched here ({why})')
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--download', action='store_true')
    asked = parser.parse_args()
    if not asked.download and there():
        return 0
    with alone(pathlib.Path('data')):
        if not asked.download and there():  # since another run has ended
            return 0
        done = fetched('MNIST', mnist, 'data/mnist') or there() or fetched(
            "scikit-learn's wheel", digits, 'data/digits')
        return 0 if done else 1


if __name__ == '__main__':
    sys.exit(main())
