"""tools/digits.py against a server on this machine, and a folder of wheels in place of a package registry; prints TAP.

digits.py takes what is there; else MNIST; else the digits of scikit-learn's wheel. It keeps no byte that is not the
expected one, never waits for ever, lets no half of MNIST pass for all of it, whenever it is ended, and ends
with status 1 and both reasons where it finds nothing. `digits.py alone` is one run of it here, with the bytes of this
test.

    digits.py [MNIST]     MNIST: the program of examples/mnist.cpp, of which it is shown what it trains on"""

import contextlib
import hashlib
import http.server
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest.mock
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

specification = importlib.util.spec_from_file_location('digits', flags.ROOT / 'tools' / 'digits.py')
digits = importlib.util.module_from_spec(specification)
specification.loader.exec_module(digits)

SERVED = {name: f'the bytes of {name}'.encode() for name in digits.MNIST}
CSV = b'the bytes of digits.csv.gz'
digits.MNIST = {name: (len(bytes), hashlib.sha256(bytes).hexdigest()) for name, bytes in SERVED.items()}
digits.DIGITS = hashlib.sha256(CSV).hexdigest()
digits.PATIENCE = 3
if 'alone' in sys.argv:
    sys.argv.remove('alone')
    sys.exit(digits.main())
EXAMPLE = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; `slow`: takes a connection and never answers; `raw`: what it answers in place of HTTP."""

    def __init__(self, files: dict[str, bytes], slow: bool = False, raw: bytes = b''):
        self.files, self.slow, self.raw, self.asked, self.ended = files, slow, raw, [], threading.Event()
        self.pause = 0  # seconds before each answer
        super().__init__(('127.0.0.1', 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that lost its patience


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.lstrip('/')
        self.server.asked.append(name)
        if self.server.slow:
            self.server.ended.wait(20)
        self.server.ended.wait(self.server.pause)
        if self.server.raw:
            self.wfile.write(self.server.raw)
            return
        body = self.server.files.get(name)
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write(body or b'')

    def log_message(self, *_):
        pass


WHEEL = 'scikit_learn-1.5.0-py3-none-any.whl'


def wheel(folder: pathlib.Path, content: bytes) -> None:
    about = 'scikit_learn-1.5.0.dist-info'
    with zipfile.ZipFile(folder / WHEEL, 'w') as file:
        file.writestr(digits.MEMBER, content)
        file.writestr(f'{about}/METADATA', 'Metadata-Version: 2.1\nName: scikit-learn\nVersion: 1.5.0\n')
        file.writestr(f'{about}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        file.writestr(f'{about}/RECORD', '')


class Screen(io.StringIO):
    def isatty(self):
        return True


class Here:
    """An empty folder, a server, and what digits.py did there."""

    def __init__(self, files=SERVED, slow=False, raw=b'', csv=CSV):
        self.files, self.slow, self.raw, self.csv = files, slow, raw, csv

    def __enter__(self):
        self.before, self.kept = os.getcwd(), tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.kept.name)
        (self.root / 'here').mkdir()
        os.chdir(self.root / 'here')
        self.wheels = wheels = self.root / 'wheels'
        wheels.mkdir()
        if self.csv is not None:
            wheel(wheels, self.csv)
        self.server = Server(self.files, self.slow, self.raw)
        os.environ.update(FULGURITE_MNIST=f'http://127.0.0.1:{self.server.server_port}/', no_proxy='127.0.0.1',
                          PIP_NO_INDEX='1', PIP_FIND_LINKS=str(wheels), PIP_CONFIG_FILE=os.devnull)
        return self

    def __exit__(self, *_):
        self.server.ended.set()
        self.server.shutdown()
        self.server.server_close()
        os.chdir(self.before)
        self.kept.cleanup()

    def run(self, *words: str, out: io.StringIO | None = None) -> int:
        sys.argv = ['digits.py', *words]
        self.server.asked.clear()
        out = io.StringIO() if out is None else out
        with contextlib.redirect_stdout(out):
            status = digits.main()
        self.said = out.getvalue()
        return status

    def files_there(self) -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in sorted(pathlib.Path('data').rglob('*')) if file.is_file()}


MNIST_THERE = {f'data/mnist/{name}': bytes for name, bytes in sorted(SERVED.items())}
DIGITS_THERE = {'data/digits/digits.csv.gz': CSV}


def expect(what: str, found, wanted) -> list[str]:
    return [] if found == wanted else [f'{what}: {found}, expected {wanted}']


def files_that_are_there():
    for places in (['data/mnist/t10k-images-idx3-ubyte.gz', 'data/mnist/t10k-labels.idx1-ubyte'],
                   ['../shared/data/mnist/train-images.idx3-ubyte', '../shared/data/mnist/train-labels-idx1-ubyte.gz'],
                   ['data/digits/digits.csv.gz']):
        with Here() as here:
            put(*places)
            yield from expect('status', here.run(), 0)
            yield from expect(f'requests where {places} are there', here.server.asked, [])


def put(*places: str) -> None:
    for place in places:
        pathlib.Path(place).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(place).touch()


def halves():
    pair = ['t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz']
    for folder in ('data/mnist', '../shared/data/mnist'):
        for places in [[name] for name in SERVED] + [[*pair, 'train-images-idx3-ubyte.gz']]:
            with Here() as here:
                put(*(f'{folder}/{name}' for name in places))
                yield from expect('status', here.run(), 0)
                yield from expect(f'files where {folder} has {places} alone', here.files_there(), MNIST_THERE)


def mnist_first():
    with Here() as here:
        yield from expect('status', here.run(), 0)
        yield from expect('files', here.files_there(), MNIST_THERE)
        yield from expect('a second run', (here.run(), here.server.asked), (0, []))


def goes_on():
    with Here({**SERVED, 't10k-labels-idx1-ubyte.gz': b'half'}, csv=None) as here:
        yield from expect('status', here.run(), 1)
        named = [file for file in here.files_there() if file.startswith('data/mnist/')]
        yield from expect('files under their names', named, [])
        here.server.files = SERVED
        pathlib.Path('data/mnist.part/killed.1.part').touch()
        yield from expect('a second run', (here.run(), here.server.asked), (0, ['t10k-labels-idx1-ubyte.gz']))
        yield from expect('files', here.files_there(), MNIST_THERE)


def ended_anywhere():
    """A run is ended before its first rename, its second, and so on: all of MNIST is there then, or no digits are."""
    for folder_is_there in (False, True):
        for renames in range(20):
            with Here(csv=None) as here:
                if folder_is_there:
                    pathlib.Path('data/mnist').mkdir(parents=True)
                rename, left = pathlib.Path.replace, [renames]

                def end(file, target):
                    if left[0] == 0:
                        raise KeyboardInterrupt
                    left[0] -= 1
                    return rename(file, target)

                with unittest.mock.patch.object(pathlib.Path, 'replace', end), contextlib.suppress(KeyboardInterrupt):
                    here.run()
                named = {file for file in here.files_there() if file.startswith('data/mnist/')}
                yield from expect(f'digits are there after {renames} renames with {sorted(named)}', digits.there(),
                                  named == set(MNIST_THERE))
                yield from expect('a second run', (here.run(), here.files_there()), (0, MNIST_THERE))


def two_at_once():
    for words in ([], ['--download']):
        with Here() as here:
            here.server.pause = 0.1
            runs = [subprocess.Popen([sys.executable, __file__, 'alone', *words], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for _ in range(2)]
            said = [run.communicate(timeout=60)[1] for run in runs]
            yield from expect(f'status of each, {words}', [run.returncode for run in runs] + said, [0, 0, '', ''])
            yield from expect('files', here.files_there(), MNIST_THERE)
            yield from expect('requests', here.server.asked, list(SERVED))


def otherwise_the_wheel():
    servers = {'other bytes': Here({name: b'x' for name in SERVED}), 'no page': Here({}), 'no answer': Here(slow=True),
               'what is no HTTP': Here(raw=b'hello, sign in first\r\n\r\n'),
               'half an answer': Here(raw=b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\nabc')}
    for why, here in servers.items():
        began = time.monotonic()
        with here:
            yield from expect('status', here.run(), 0)
            yield from expect(f'files after {why}', here.files_there(), DIGITS_THERE)
            yield from expect(f'one sentence after {why}', here.said.count('MNIST cannot be fetched here ('), 1)
            yield from expect('a second run', (here.run(), here.server.asked), (0, []))
        yield from expect(f'in time after {why}', time.monotonic() - began < 20, True)


def asked_once_more():
    with Here({}) as here:
        here.run()
        here.server.files = SERVED
        yield from expect('status', here.run('--download'), 0)
        yield from expect('files', here.files_there(), dict(sorted({**MNIST_THERE, **DIGITS_THERE}.items())))
    with Here({}) as here:
        here.run()
        yield from expect('status where it cannot be had', here.run('--download'), 0)
        yield from expect('what it says', 'MNIST cannot be fetched here' in here.said, True)


def nothing():
    for why, csv in {'no wheel': None, 'a wheel with other bytes': b'damaged'}.items():
        with Here({}, csv=csv) as here:
            yield from expect('status', here.run(), 1)
            yield from expect(f'files after {why}', here.files_there(), {})
            yield from expect('reasons', here.said.count('cannot be fetched here ('), 2)
    with Here({}) as here:  # pip looks only at what describes the wheel
        file = here.wheels / WHEEL
        file.write_bytes(file.read_bytes().replace(CSV, CSV[::-1]))
        yield from expect('status of a damaged wheel', (here.run(), here.files_there()), (1, {}))
    with Here() as here:
        pathlib.Path('data').touch()
        yield from expect('status where nothing can be written', here.run(), 1)
        yield from expect('reasons', here.said.count('cannot be fetched here ('), 2)
    with Here() as here:
        put('data/mnist.part')
        yield from expect('status where MNIST cannot be written', here.run(), 0)
        yield from expect('files', here.files_there(), {**DIGITS_THERE, 'data/mnist.part': b''})
    with Here({}, csv=None) as here:
        os.environ['FULGURITE_MNIST'] = 'nonsense'
        yield from expect('status of a nonsensical address', here.run(), 1)


def contradiction():
    for words in (['--drawn'], ['--data', 'mine'], ['--data=mine']):
        done = subprocess.run([flags.ROOT / 'tools' / 'dev', 'run', '--download', *words], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        told = f'--download fetches MNIST, which {words[0].split("=")[0]} does not read' in done.stderr
        yield from expect(f'{words} with --download', (done.returncode, told), (1, True))


def progress():
    name, large = 'train-images-idx3-ubyte.gz', b'x' * 200_000
    sizes = {**digits.MNIST, name: (len(large), hashlib.sha256(large).hexdigest())}
    with Here({**SERVED, name: large}) as here, unittest.mock.patch.object(digits, 'MNIST', sizes):
        yield from expect('status', here.run(out=Screen()), 0)
        for share in (32, 65, 98, 100):
            yield from expect(f'{share} % on a screen', f'\r   {name}: {share} %' in here.said, True)
    with Here() as here:
        here.run()
        yield from expect('what a log gets', here.said, '== fetching MNIST (11.6 MB)\n')


def example(*words: str, until: str = '') -> tuple[int, str]:
    """Runs examples/mnist, to its end or to a line with `until`: its status, and all that it said."""
    environment = {name: value for name, value in os.environ.items() if name != 'FULGURITE_DATA'}
    with subprocess.Popen([EXAMPLE, '--device', 'cpu', *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=environment) as program:
        clock = threading.Timer(200, program.kill)
        clock.start()
        said = ''
        for line in program.stdout:
            said += line
            if until and until in line:
                program.kill()
                break
        program.wait()
        clock.cancel()
    return program.returncode, said


def says(said: str, *sentences: str) -> list[str]:
    return [f'"{sentence}" is not in:\n{said}' for sentence in sentences if sentence not in said]


def trained_on():
    with Here():
        status, said = example()
        yield from expect('status where no digits are', status, 1)
        yield from says(said, 'there are no handwritten digits in data/mnist, ../shared/data/mnist, data/digits: '
                              '`tools/dev run` fetches some', 'or take --drawn ones')
        yield from expect('what it drew unasked', 'drawn by the program' in said, False)
        yield from says(example('--drawn', until='expect ')[1], 'digits drawn by the program: ',
                        'expect a validation accuracy of 100 % after 8 epochs')
        pathlib.Path('data/digits').mkdir(parents=True)
        rows = (','.join([str(i % 17)] * 64 + [str(i % 10)]) for i in range(100))
        pathlib.Path('data/digits/digits.csv').write_text('\n'.join(rows) + '\n')
        status, said = example()
        yield from expect('status with digits of 8 x 8', status, 0)
        yield from says(said, '8 x 8 digits from data/digits: ', 'validation accuracy ', ', expected 99.1 to 99.7 %',
                        'expect a validation accuracy of 99.1 to 99.7 % after 30 epochs')
        for part, count in (('train', 100), ('t10k', 20)):
            pathlib.Path('data/mnist').mkdir(exist_ok=True)
            number = count.to_bytes(4, 'big')
            pathlib.Path(f'data/mnist/{part}-images-idx3-ubyte').write_bytes(
                b'\0\0\x08\x03' + number + 2 * (28).to_bytes(4, 'big') + bytes(28 * 28 * count))
            pathlib.Path(f'data/mnist/{part}-labels-idx1-ubyte').write_bytes(
                b'\0\0\x08\x01' + number + bytes(i % 10 for i in range(count)))
        yield from says(example(until='expect ')[1], 'MNIST from data/mnist: ',
                        'expect a validation accuracy of at least 97.7 %')


SHOWN = 'examples/mnist trains on real digits, draws some only where asked to, and says which figure to expect'
if EXAMPLE is None or not EXAMPLE.is_file():
    SHOWN += ' # SKIP the examples are not built'
    trained_on = list  # noqa: F811
CASES = {'digits that are there are taken, and nobody is asked': files_that_are_there,
         'images without labels, or labels without images, are no digits: the rest is fetched': halves,
         'MNIST is fetched whole, once': mnist_first,
         'whenever a run is ended, no half of MNIST passes for all of it': ended_anywhere,
         'two runs at once both end well, and fetch once': two_at_once,
         'a download that was broken off goes on, and no half of it is ever used': goes_on,
         "where MNIST cannot be had, scikit-learn's digits are taken, in time": otherwise_the_wheel,
         '--download asks for MNIST although other digits are there': asked_once_more,
         'a download shows its progress on a screen, and one line in a log': progress,
         SHOWN: trained_on,
         'tools/dev run refuses --download where the digits are named': contradiction,
         'where nothing can be had, or kept, the status and two sentences say so': nothing}


def complaints(case) -> list[str]:
    found = []
    try:
        found.extend(case())
    except Exception:  # its test fails, and the next ones are run
        found.append(traceback.format_exc())
    return found


flags.tap([(name, complaints(case)) for name, case in CASES.items()])
