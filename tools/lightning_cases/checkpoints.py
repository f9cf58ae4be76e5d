"""Sections 11.8 and 11.9: ModelCheckpoint and EarlyStopping on a scripted validation metric."""

import contextlib
import math
import pathlib
import tempfile

import lightning.pytorch as pl
from lightning.pytorch import callbacks as plc

from .base import P, case, fit, outcome


class Scripted(P):
    """`vl` of epoch e is script[e]; the last one goes on."""

    def __init__(self, script=(1,), fails_at=-1):
        super().__init__()
        self.script, self.fails_at, self.batches = list(script), fails_at, 0

    def training_step(self, batch, batch_idx):
        self.batches += 1
        if self.batches - 1 == self.fails_at:
            raise RuntimeError('a step failed')
        return -self.p

    def validation_step(self, batch, batch_idx):
        self.log('vl', float(self.script[min(self.current_epoch, len(self.script) - 1)]))
        self.log('val/acc', 0.25)


class Saves(plc.ModelCheckpoint):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.saved = []

    def setup(self, trainer, module, stage):
        super().setup(trainer, module, stage)
        save = trainer.save_checkpoint

        def noted(path, *args, **kwargs):
            self.saved.append(pathlib.Path(path).stem)
            save(path, *args, **kwargs)
        trainer.save_checkpoint = noted


def files(script=(1,), epochs=None, n=2, folder=None, fails_at=-1, how=None, **options):
    """What was saved in which order, and what is left."""
    with contextlib.ExitStack() as stack:
        folder = folder or stack.enter_context(tempfile.TemporaryDirectory())
        saves = Saves(folder, **(how or {}))
        with contextlib.suppress(RuntimeError):
            fit(Scripted(script, fails_at), n, [saves], val=1, enable_checkpointing=True,
                max_epochs=len(script) if epochs is None else epochs, **options)
        return saves.saved, [path.stem for path in sorted(pathlib.Path(folder).iterdir(), key=lambda path: path.name)]


def watched(script, folder=None, **how):
    return files(script, folder=folder, how={'monitor': 'vl', **how})


def unwatched(epochs, n=2, how=None, **options):
    return files(epochs=epochs, n=n, how=how, **options)


@case
def C84():
    saved, kept = unwatched(3)
    return {'saved': saved, 'kept': kept}


@case
def C85():
    one, two = watched([5, 6, 4, 7]), watched([5, 6, 4, 7], save_top_k=2)
    return {'k1: saved': one[0], 'k1: kept': one[1], 'k2: saved': two[0], 'k2: kept': two[1]}


@case
def C86():
    return {'k -1': unwatched(3, how={'save_top_k': -1})[1], 'k 0': unwatched(3, how={'save_top_k': 0})[1],
            'k 0, save_last': unwatched(3, how={'save_top_k': 0, 'save_last': True})[1]}


@case
def C87():
    return {'5 6 4': watched([5, 6, 4], mode='max')[1]}


@case
def C88():
    return {'saved': watched([5, 6, 4], save_last=True)[0]}


@case
def C89():
    return {'kept': unwatched(5, how={'save_top_k': -1, 'every_n_epochs': 2})[1]}


@case
def C90():
    how = {'save_top_k': -1, 'every_n_train_steps': 2}
    return {'n5 E2': unwatched(2, 5, how)[0], 'K2 n6 E2': unwatched(2, 6, how, accumulate_grad_batches=2)[0]}


@case
def C92():
    return {'kept': unwatched(2, 4, {'save_top_k': -1}, val_check_interval=0.5)[1]}


@case
def C93():
    return {
        'default': unwatched(4, how={'save_top_k': -1}, check_val_every_n_epoch=2)[1],
        'epoch end': unwatched(4, how={'save_top_k': -1, 'save_on_train_epoch_end': True}, check_val_every_n_epoch=2)[
            1
        ],
    }


@case
def C94():
    def named(insert, filename):
        with tempfile.TemporaryDirectory() as folder:
            saves = Saves(folder, monitor='vl', filename=filename, auto_insert_metric_name=insert)
            fit(Scripted([5]), 2, [saves], val=1, enable_checkpointing=True, max_epochs=1)
            return [path.name[:-len('.ckpt')] for path in pathlib.Path(folder).iterdir()]

    return {
        'inserted': named(True, '{epoch:02d}-{vl:.2f}-{missing}'),
        'not inserted': named(False, 'e{epoch}_s{step}_vl{vl:.1f}'),
    }


@case
def C95():
    saved, kept = watched([math.nan, 4, 3])
    return {'saved': saved, 'kept': kept}


@case
def C96():
    with tempfile.TemporaryDirectory() as folder:
        watched([5, 4], folder, filename='x', save_last=True)
        return {'second run': watched([5, 4], folder, filename='x', save_last=True)[1]}


@case
def C97():
    return {'kept': unwatched(-1, 4, max_steps=5)[1]}


@case
def C99():
    return {'asked': files(epochs=1, n=9, fails_at=3, how={'save_on_exception': True})[1],
            'not asked': files(epochs=1, n=9, fails_at=3, how={'save_on_exception': False})[1]}


@case
def C100():
    order = []

    class Speaks(pl.Callback):
        def on_train_epoch_end(self, trainer, module):
            order.append('C')

        def state_dict(self):
            order.append('C.state')
            return {}

    class Stops(plc.EarlyStopping):
        def on_train_epoch_end(self, trainer, module):
            order.append('ES')
            super().on_train_epoch_end(trainer, module)

    class Spoken(Scripted):
        def on_train_epoch_end(self):
            order.append('M')
    with tempfile.TemporaryDirectory() as folder:
        fit(
            Spoken(),
            2,
            [plc.ModelCheckpoint(folder), Stops('vl', patience=9), Speaks()],
            val=1,
            enable_checkpointing=True,
            max_epochs=1,
        )
    return {'order': order}


def stopped(script, metric='vl', epochs=20, **how):
    stopping = plc.EarlyStopping(metric, **how)
    t = fit(Scripted(script), 2, [stopping], val=1, max_epochs=epochs)
    return t.current_epoch, stopping.stopped_epoch


@case
def C101():
    epochs, at = stopped([8, 4, 2, 3, 4, 5], patience=3)
    return {'8 4 2 3 4 5 p3': epochs, '8 4 2 3 4 5 p3: stopped': at, '6 5 4 4 p1': stopped([6, 5, 4, 4], patience=1)[0],
            '6 5 6 5 5 p3': stopped([6, 5, 6, 5, 5], patience=3)[0]}


@case
def C103():
    return {'1 2 3 2 2 p2': stopped([1, 2, 3, 2, 2], patience=2, mode='max')[0]}


@case
def C104():
    return {'3 2 nan 1': stopped([3, 2, math.nan, 1])[0]}


@case
def C105():
    return {
        '2.9': stopped([9, 8, 7, 6, 5, 6, 4, 3, 2], stopping_threshold=2.9)[0],
        '3': stopped([9, 3, 2], stopping_threshold=3)[0],
    }


@case
def C106():
    return {'9 4 2 16': stopped([9, 4, 2, 16], divergence_threshold=15.9)[0]}


@case
def C107():
    return {'5 5': stopped([5, 5], patience=0)[0]}


@case
def C108():
    return {
        'strict': outcome(lambda: stopped([1], 'missing', 2)),
        'not strict': stopped([1], 'missing', 2, strict=False)[0],
    }
