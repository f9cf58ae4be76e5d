"""Section 11.3: schedulers, the estimate of steps, the learning-rate monitor."""

import contextlib

import torch
from lightning.pytorch import callbacks as plc

from .base import P, Rows, case, fit, outcome


class Halving(P):
    def __init__(self, rate=0.1, **how):
        super().__init__(rate)
        self.how, self.rates, self.moves = how, [], []

    def configure_optimizers(self):
        optimizer = torch.optim.SGD([self.p], lr=self.rate)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.5 ** n)
        return {'optimizer': optimizer, 'lr_scheduler': {'scheduler': scheduler, **self.how}}

    def lr(self):
        return self.trainer.optimizers[0].param_groups[0]['lr']

    def on_train_batch_start(self, batch, batch_idx):
        self.rates.append(self.lr())

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.moves.append(self.lr_schedulers().last_epoch)

    def on_train_end(self):
        self.rates.append(self.lr())


def halving(n, k=1, rate=0.1, max_epochs=None, max_steps=-1, **how):
    model = Halving(rate, **how)
    fit(model, n, accumulate_grad_batches=k, max_epochs=max_epochs, max_steps=max_steps)
    return model


@case
def C30():
    model = halving(4, max_epochs=2, interval='step')
    return {'moves': model.moves, 'lr': model.rates[-1]}


@case
def C31():
    return {'moves': halving(5, max_epochs=2, interval='step', frequency=2).moves}


@case
def C32():
    return {
        f'f{f} K2 n{n}': halving(n, 2, max_epochs=1, interval='step', frequency=f).moves
        for f, n in ((1, 5), (2, 6), (3, 12))
    }


@case
def C34():
    model = halving(2, max_epochs=3)
    return {'rates': model.rates[:-1], 'moves': model.moves}


@case
def C35():
    return {f'K{k}': halving(4, k, rate=1.0, max_epochs=1, interval='step').p for k in (1, 2)}


@case
def C36():
    return {'moves': halving(4, max_steps=5).moves[-1]}


@case
def C38():
    class Follows(P):
        frequency = 1

        def configure_optimizers(self):
            optimizer = torch.optim.SGD([self.p], lr=1.0)
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
            return {
                'optimizer': optimizer,
                'lr_scheduler': {'scheduler': scheduler, 'monitor': 'v', 'frequency': self.frequency},
            }

        def validation_step(self, batch, batch_idx):
            self.log('v', 1.0)

        def on_train_epoch_start(self):
            self.seen.append(self.trainer.optimizers[0].param_groups[0]['lr'])

        on_train_end = on_train_epoch_start

        def training_step(self, batch, batch_idx):
            return -self.p

    def rates(frequency):
        model = Follows()
        model.frequency = frequency
        fit(model, 1, val=1, max_epochs=5, check_val_every_n_epoch=2)
        return model.seen
    return {'frequency 1': outcome(lambda: rates(1)), 'frequency 2: lr': rates(2)}


@case
def C39():
    class OneCycle(P):
        def configure_optimizers(self):
            self.estimate = self.trainer.estimated_stepping_batches
            optimizer = torch.optim.SGD([self.p], lr=1.0, momentum=0.9)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=self.estimate)
            return {'optimizer': optimizer, 'lr_scheduler': {'scheduler': scheduler, 'interval': 'step'}}

        def on_train_batch_end(self, *rest):
            self.moves = self.lr_schedulers().last_epoch
    model = OneCycle()
    fit(model, 4, max_epochs=2)
    return {'estimate': model.estimate, 'moves': model.moves}


@case
def C40():
    class Known(Exception):
        pass

    class Estimates(P):
        def configure_optimizers(self):
            self.estimate = self.trainer.estimated_stepping_batches
            raise Known

    def estimate(n=64, **options):
        model = Estimates()
        with contextlib.suppress(Known):
            fit(model, n, **options)
        return model.estimate
    return {
        'n64 E2': estimate(max_epochs=2),
        'n64 K3 E1': estimate(max_epochs=1, accumulate_grad_batches=3),
        'n25 K10 E3': estimate(25, max_epochs=3, accumulate_grad_batches=10),
        'max_steps 10': estimate(max_steps=10),
        'max_steps 1000 E2': estimate(max_steps=1000, max_epochs=2),
        'E -1': estimate(max_epochs=-1),
        'E -1 max_steps 7': estimate(max_epochs=-1, max_steps=7),
        'E0': estimate(max_epochs=0),
        'nothing set': estimate(),
    }


def monitored(moves, asked, every):
    rows = Rows()
    fit(
        Halving(interval=moves), 3, [plc.LearningRateMonitor(asked)], max_epochs=2, logger=rows, log_every_n_steps=every
    )
    return [(x, cells['lr-SGD']) for x, cells in rows.rows if 'lr-SGD' in cells]


@case
def C41():
    return {'log every 1': monitored('step', None, 1)}


@case
def C42():
    return {
        'none': monitored('epoch', None, 1),
        'epoch': monitored('epoch', 'epoch', 1),
        'step, log every 2': monitored('epoch', 'step', 2),
    }
