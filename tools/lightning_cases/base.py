"""What the cases on PyTorch Lightning share: the register, loaders, models, callbacks, runs that print nothing of their
own."""

import logging
import tempfile
import warnings

warnings.filterwarnings('ignore')
import lightning.pytorch as pl  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.loggers.logger import Logger  # noqa: E402

from .text import canonical  # noqa: E402

logging.disable(logging.CRITICAL)

cases = {}


def case(function):
    cases[function.__name__] = function
    return function


class Sized:
    """n batches of one number each; `sizes` instead: batches of so many rows."""

    def __init__(self, n, start=0, sizes=None):
        self.batches = [torch.full((sizes[i] if sizes else 1,), float(start + i)) for i in range(n)]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


class Unsized:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(Sized(self.n))


class P(pl.LightningModule):
    def __init__(self, rate=1.0):
        super().__init__()
        self.p = torch.nn.Parameter(torch.tensor(0.0))
        self.rate, self.seen = rate, []

    def training_step(self, batch, batch_idx):
        self.seen.append(self.p.item())
        return -self.p

    def configure_optimizers(self):
        return torch.optim.SGD([self.p], lr=self.rate)


class Validated(P):
    def validation_step(self, batch, batch_idx):
        pass


class Positions(pl.Callback):
    def __init__(self):
        self.batches, self.steps, self.clears, self.validations, self.batch = [], [], [], [], 0

    def here(self, trainer):
        return (trainer.current_epoch, self.batch)

    def on_train_batch_start(self, trainer, model, batch, batch_idx):
        self.batch = batch_idx
        self.batches.append(self.here(trainer))

    def on_before_optimizer_step(self, trainer, model, optimizer):
        self.steps.append(self.here(trainer))

    def on_before_zero_grad(self, trainer, model, optimizer):
        self.clears.append(self.here(trainer))

    def on_validation_start(self, trainer, model):
        if not trainer.sanity_checking:
            self.validations.append(self.here(trainer))


class Rows(Logger):
    name, version = 'rows', 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))

    def lines(self):
        return [line(x, cells) for x, cells in self.rows]


def line(x, cells):
    return f'{x}:' + ','.join(f'{name}={canonical(float(cells[name]))}' for name in sorted(cells))


def trainer(callbacks=(), **options):
    given = dict(accelerator='cpu', devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                 enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=tempfile.gettempdir())
    given.update(options)
    return pl.Trainer(callbacks=list(callbacks), **given)


def fit(model, n, callbacks=(), val=None, **options):
    """n: a number of batches, or a loader."""
    t = trainer(callbacks, **options)
    t.fit(model, Sized(n) if isinstance(n, int) else n, Sized(val) if isinstance(val, int) else val)
    return t


def outcome(function) -> str:
    try:
        function()
    except Exception:
        return 'error'
    return 'runs'


def hook(name, body):
    """A callback whose one hook calls body(trainer)."""
    return type('Hook', (pl.Callback,), {name: lambda self, trainer, *rest: body(trainer, *rest)})()


def stop_at(epoch, batch):
    def body(t, model, outputs, data, batch_idx):
        if (t.current_epoch, batch_idx) == (epoch, batch):
            t.should_stop = True
    return hook('on_train_batch_end', body)
