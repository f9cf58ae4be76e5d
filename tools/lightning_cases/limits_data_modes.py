"""Sections 11.12 and 11.13: limits, options that stand for several, loaders, modes; exceptions, the order of
callbacks."""

import contextlib

import lightning.pytorch as pl
import torch
from lightning.pytorch import callbacks as plc
from lightning.pytorch.utilities.combined_loader import CombinedLoader

from .base import P, Rows, Sized, Validated, case, fit, outcome, trainer
from .checkpoints import Scripted


class Receives(P):
    def __init__(self):
        super().__init__()
        self.trained, self.validated, self.order = [], [], []

    def training_step(self, batch, batch_idx):
        self.trained.append(batch.item())
        self.order.append('train')
        self.log('v', batch.item())
        return -self.p

    def validation_step(self, batch, batch_idx):
        self.validated.append(batch.item())
        self.order.append('val')

    def on_sanity_check_start(self):
        self.order.append('sanity')


@case
def C129():
    def order(batches, **options):
        model = Receives()
        fit(model, 10, val=10, max_epochs=5, fast_dev_run=batches, num_sanity_val_steps=2, **options)
        return model.order
    return {'1': order(1), '3': order(3), '3, overfit 2': order(3, overfit_batches=2)}


@case
def C130():
    def run(limit, n=10):
        model = P()
        fit(model, n, max_epochs=1, limit_train_batches=limit)
        return len(model.seen)

    return {
        '0': run(0),
        '1': run(1),
        '1.0': run(1.0),
        '.1': run(0.1),
        '.5': run(0.5),
        '3': run(3),
        '2': run(2),
        '100': run(100),
        '.1 of 5': outcome(lambda: run(0.1, 5)),
    }


@case
def C131():
    def options(**given):
        return outcome(lambda: trainer(**given))

    return {
        'E -2': options(max_epochs=-2),
        'max_steps -2': options(max_steps=-2),
        'fast_dev_run -1': options(fast_dev_run=-1),
        'reload -1': options(reload_dataloaders_every_n_epochs=-1),
        'limit 1.5': options(limit_train_batches=1.5),
        'limit -1': options(limit_val_batches=-1),
        'V 1.5': options(val_check_interval=1.5),
        'V(.5) N_v none': options(val_check_interval=0.5, check_val_every_n_epoch=None),
    }


@case
def C132():
    def run(few, epochs, n, m):
        model = Receives()
        fit(model, n, val=Sized(m, 100), max_epochs=epochs, overfit_batches=few)
        return model
    two, tenth = run(2, 2, 10, 10), run(0.1, 1, 20, 30)
    return {
        '2: train': two.trained,
        '2: val': two.validated,
        '.1 of 20': len(tenth.trained),
        '.1 of 30': len(tenth.validated),
    }


@case
def C134():
    class Paired(P):
        def training_step(self, batch, batch_idx):
            self.seen.append(tuple(part.item() for part in batch))
            return -self.p

    def pairs(limit):
        model = Paired()
        fit(model, CombinedLoader([Sized(4, 1), Sized(4, 3)], 'min_size'), max_epochs=1, limit_train_batches=limit)
        return model.seen
    return {'2': pairs(2), '.5': pairs(0.5)}


@case
def C136():
    class Predicts(P):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return batch.item()
    t = trainer(max_epochs=1)
    return {'one': t.predict(Predicts(), Sized(2)), 'two': t.predict(Predicts(), [Sized(1), Sized(2, 5)])}


@case
def C137():
    class Requests(pl.LightningDataModule):
        def __init__(self):
            super().__init__()
            self.train, self.val = [], []

        def train_dataloader(self):
            self.train.append(str(self.trainer.current_epoch))
            return Sized(2)

        def val_dataloader(self):
            self.val.append('sanity' if self.trainer.sanity_checking else str(self.trainer.current_epoch))
            return Sized(2)
    found = {}
    for name, reload, every in (('0', 0, 1), ('1', 1, 1), ('2', 2, 1), ('1, N_v 2', 1, 2)):
        data = Requests()
        trainer(max_epochs=4, reload_dataloaders_every_n_epochs=reload, check_val_every_n_epoch=every,
                num_sanity_val_steps=2).fit(Validated(), datamodule=data)
        found[f'{name}: train'], found[f'{name}: val'] = data.train, data.val
    return found


@case
def C138():
    class Modes(P):
        def validation_step(self, batch, batch_idx):
            self.seen.append(
                ','.join(
                    'T' if yes else 'F'
                    for yes in (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), self.training)
                )
            )

        def training_step(self, batch, batch_idx):
            return -self.p
    model = Modes()
    fit(model, 1, val=1, max_epochs=1).validate(model, Sized(1), verbose=False)
    trainer(max_epochs=1, inference_mode=False).validate(model, Sized(1), verbose=False)
    return {'grad, inference, training': model.seen, 'training afterwards': model.training}


@case
def C139():
    model = Receives()
    pl.Trainer(accelerator='cpu', devices=1, barebones=True, max_epochs=1).fit(model, Sized(2), Sized(1))
    return {'order': model.order, 'with a logger': outcome(lambda: pl.Trainer(barebones=True, logger=Rows()))}


@case
def C147():
    class Throws(P):
        def training_step(self, batch, batch_idx):
            if batch_idx == 1:
                raise RuntimeError('batch 1')
            return -self.p

    class Hears(pl.Callback):
        def __init__(self):
            self.heard = []

        def on_exception(self, trainer, module, error):
            self.heard.append(f'C.on_exception {error} {trainer.global_step}')

        def on_train_end(self, trainer, module):
            self.heard.append('C.on_train_end')

        def teardown(self, trainer, module, stage):
            self.heard.append('C.teardown')
    hears = Hears()
    t = trainer([hears], max_epochs=1)
    with contextlib.suppress(RuntimeError):
        t.fit(Throws(), Sized(4))
    return {'heard': ' '.join(hears.heard), 'gs': t.global_step}


@case
def C152():
    t = fit(
        Scripted([3, 2, 1]), 2, [plc.EarlyStopping('vl'), plc.EarlyStopping('val/acc', patience=1)], val=1, max_epochs=3
    )
    return {'different': t.current_epoch}


@case
def C153():
    t = trainer(
        [plc.ModelCheckpoint(), plc.EarlyStopping('vl'), plc.LearningRateMonitor()],
        max_time='00:01:00:00',
        logger=Rows(),
        enable_checkpointing=True,
        enable_progress_bar=True,
        enable_model_summary=True,
    )
    names = [type(callback).__name__ for callback in t.callbacks]
    return {'order': [name.replace('TQDM', '').replace('Rich', '') for name in names]}
