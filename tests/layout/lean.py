"""What the lean header includes, and what it leaves to programs that use it: `lean.py BUILD` prints TAP.

Compiling is most of what a small program waits for, so fulgurite/trainer.hpp has the trainer and no callback, logger,
loader, schedule, capture or optimizer of ours, and of LibTorch no layer but the one that averaging weights asks for."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

LEAN = 'fulgurite/trainer.hpp'
# Beginnings of paths, below include/fulgurite and below LibTorch's C++ interface.
OURS = ['logger/', 'schedule/', 'data/', 'tuner/', 'cli/', 'distributed/', 'torch/capture/', 'torch/chain/',
        'torch/data/tensor_', 'torch/data/mnist', 'torch/data/text', 'torch/data/digits', 'torch/optim/first_order',
        'torch/optim/lbfgs',
        'report/describe', 'report/progress_', 'callback/model_', 'callback/progress_bar', 'callback/early_stopping',
        'callback/signals', 'callback/timer', 'callback/stochastic', 'callback/throughput', 'fulgurite.hpp']
THEIRS = ['torch/torch.h', 'torch/all.h', 'torch/data', 'torch/nn.h', 'torch/nn/modules.h', 'torch/nn/functional.h',
          'torch/nn/modules/conv.h', 'torch/nn/modules/linear.h', 'torch/nn/modules/rnn.h',
          'torch/nn/modules/container/sequential.h', 'torch/nn/modules/transformer', 'torch/optim.h',
          'torch/optim/adam.h', 'torch/optim/lbfgs.h', 'torch/jit.h']


def reached(how, text: str) -> tuple[list[str], str]:
    """All files that a unit of this text includes, by the compiler's own account."""
    words, folder = how
    words = [word for word in words if word not in ('-MD', '-MMD')]
    run = subprocess.run(words + ['-M', '-x', 'c++', '-'], cwd=folder, input=text, capture_output=True, text=True)
    return run.stdout.replace('\\\n', ' ').split(), run.stderr if run.returncode else ''


def pulled(files: list[str]) -> list[str]:
    found = []
    for file in files:
        for root, forbidden in (('/include/fulgurite/', OURS), ('/csrc/api/include/', THEIRS)):
            if root in file and any(file.rpartition(root)[2].startswith(path) for path in forbidden):
                found.append(f'{LEAN} includes {file.rpartition(root)[2]}, which a small program does not use')
    return found


def main() -> None:
    how = flags.command(pathlib.Path(*flags.arguments('BUILD')), 'full_one.cpp')
    lean, wrong = reached(how, f'#include <{LEAN}>\n')
    umbrella, also_wrong = reached(how, '#include <fulgurite/fulgurite.hpp>\n')
    flags.tap([
        (f'{LEAN} is preprocessed alone', [wrong] if wrong else []),
        (f'{LEAN} leaves out what a small program does not use', pulled(lean)),
        ('the umbrella has all of it, so that this test can find something',
         [] if not also_wrong and len(pulled(umbrella)) > 30 else [also_wrong or 'nothing was found in the umbrella']),
    ])


main()
