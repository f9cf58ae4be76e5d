"""The gallery: each program of examples/ runs for a short while, and what it prints is true; --help lists the option
for that, which is --fast. `cli` has those of the trainer instead. A program that has no row here, and that no other
test runs, is a failure. Prints TAP.

    examples.py FOLDER    where the programs are"""

import pathlib
import re
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1]).resolve()
ELSEWHERE = {'first', 'predict'}  # recipes.py and predict.py run them


class Example(typing.NamedTuple):
    words: str  # the command line
    prints: str  # a pattern of its output, whose groups are numbers
    holds: typing.Callable[..., bool] = lambda *_: True  # of these numbers
    leaves: str = ''  # files in its folder, of any number of other ones


EXAMPLES = {
    'char_gpt': Example(f'--fast --text {flags.ROOT}/README.md --prompt struct', r'^struct'),
    'cli': Example('fit --trainer.max_epochs 1 --trainer.limit_train_batches 40 --model.hidden 64',
                   r'best accuracy ([\d.]+) in epoch 0', lambda a: a > 0.5, 'lightning_logs/version_0/config.toml'),
    'custom_strategy': Example('--fast', r'63 steps; the noise fell from ([\d.]+) to ([\d.]+)', lambda a, b: a > b),
    'distributed': Example('--fast --drawn --devices 2', 'validation accuracy .* with 2 processes'),
    'embedded': Example('--fast --seconds 2', r': ([\d.]+) at first, ([\d.]+) at the end', lambda a, b: a > b),
    'export': Example('--fast --drawn', 'as it was in training', leaves='best.safetensors digits.pt'),
    'finetune': Example('--fast', r'finetuned ([\d.]+) %, trained on these alone [\d.]+ %', lambda a: a > 50,
                        'backbone.safetensors'),
    'forecast': Example('--fast', r'held out: ([\d.]+) sunspots, of the naive forecast: ([\d.]+)', lambda a, b: a < b),
    'gan': Example('--fast --drawn --out .', 'the pictures are in', leaves='gan-epoch-001.png'),
    'jit': Example('--fast', r'odd or even: ([\d.]+) %; from the checkpoint ([\d.]+) %; from the new file ([\d.]+) %',
                   lambda a, b, c: 60 < a == b == c, 'backbone.pt odd.pt odd.safetensors'),
    'mlp': Example('--fast', r'best val/accuracy ([\d.]+) in epoch 0', lambda a: a > 0.5),
    'mnist': Example('--fast --drawn', 'exactly the same'),
    'regression': Example('--fast', r'validation rows: ([\d.]+); of always predicting the mean: ([\d.]+)',
                          lambda a, b: a < b / 2, 'flats.csv'),
    'reinforcement': Example('--fast', r': (\d+) at first, (\d+) at the end', lambda a, b: a < b),
    'resume': Example('--fast', 'killed at step 16 [(]signal 9[)][\\s\\S]*equal in every bit'),
    'sweep': Example('--fast --drawn', 'exactly the same', leaves='sweep.csv sweep.svg'),
    'tune': Example('--fast --drawn --out .', r'batch size \d+, learning rate', leaves='batch_size.svg curves.svg'),
    'vae': Example('--fast --drawn', r'validation ELBO -([\d.]+) nats', lambda a: a < 300),
}


def run(name: str, words: str, folder: str) -> subprocess.CompletedProcess:
    return subprocess.run([FOLDER / name, *words.split()], cwd=folder, capture_output=True, text=True, timeout=500)


def check(name: str) -> tuple[str, list[str]]:
    example = EXAMPLES[name]
    title = f'{name} {example.words}'.replace(str(flags.ROOT) + '/', '')
    if not (FOLDER / name).exists():
        return title + ' # SKIP it is not built', []
    with tempfile.TemporaryDirectory() as folder:
        told = run(name, '--help', folder)
        short = '--trainer.limit_train_batches' if name == 'cli' else '--fast'
        if told.returncode or short not in told.stdout:
            return title, [f'--help: status {told.returncode}\n{told.stdout}{told.stderr}']
        done = run(name, example.words, folder)
        found = re.search(example.prints, done.stdout + done.stderr, re.M)
        if done.returncode or not found or not example.holds(*map(float, found.groups())):
            return title, [f'status {done.returncode}, or other output than expected\n{done.stdout}{done.stderr}']
        missing = [left for left in example.leaves.split() if not (pathlib.Path(folder) / left).exists()]
        return title, [f'{left} is not there' for left in missing]


there = {source.stem for source in (flags.ROOT / 'examples').glob('*.cpp')}
unknown = [f'{name}.cpp is no row here, or a row without a program' for name in there - ELSEWHERE ^ EXAMPLES.keys()]
listed = (flags.ROOT / 'examples' / 'README.md').read_text()
unknown += [f'examples/README.md does not name {name}' for name in sorted(there) if f'`{name}`' not in listed]
flags.tap([('every program of examples/ is run, and named by its README.md', unknown), *flags.each(check, EXAMPLES)])
