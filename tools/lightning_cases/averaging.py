"""Section 11.10: averages of weights, finetuning."""

import lightning.pytorch as pl
import torch
from lightning.pytorch import callbacks as plc

from .base import Validated, case, fit


class Watched(Validated):
    def __init__(self, rate=1.0, halving=False):
        super().__init__(rate)
        self.validated, self.rates, self.halving = [], [], halving

    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx == 0:
            self.rates.append(self.trainer.optimizers[0].param_groups[0]['lr'])

    def validation_step(self, batch, batch_idx):
        self.validated.append(self.p.item())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD([self.p], lr=self.rate)
        return ([optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]) if self.halving else optimizer


def swa(n, epochs, model=None, **how):
    model, callback = model or Watched(), plc.StochasticWeightAveraging(**how)
    fit(model, n, [callback], val=1, max_epochs=epochs)
    return model, callback


@case
def C110():
    model, _ = swa(2, 4, swa_lrs=1.0, swa_epoch_start=2)
    return {'p': model.p, 'validated': model.validated}


@case
def C111():
    model, callback = swa(
        2, 6, Watched(0.1, True), swa_lrs=0.05, swa_epoch_start=3, annealing_epochs=2, annealing_strategy='linear'
    )
    return {'lr': model.rates, 'averages': callback.n_averaged}


@case
def C112():
    model, callback = swa(1, 6, swa_lrs=0.5, annealing_epochs=4)
    return {'lr': model.rates, 'averages': callback.n_averaged}


@case
def C114():
    model, _ = swa(1, 6, swa_lrs=0.5, annealing_epochs=2, avg_fn=lambda average, weight, n: weight)
    return {'p': model.p}


@case
def C115():
    class Normed(Watched):
        backwards = 0

        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(1)

        def training_step(self, batch, batch_idx):
            self.norm(torch.stack([batch, batch + 1]))
            return -self.p

        def on_after_backward(self):
            self.backwards += 1
    model = Normed()
    t = fit(model, 4, [plc.StochasticWeightAveraging(swa_lrs=1.0)], val=1, max_epochs=6)
    return {'p': model.p, 'backwards': model.backwards, 'max_epochs': t.max_epochs, 'epoch': t.current_epoch}


@case
def C116():
    class Seen(Watched):
        def training_step(self, batch, batch_idx):
            self.seen.append(self.p.item())
            return -self.p
    model = Seen()
    fit(model, 2, [plc.WeightAveraging()], val=1, max_epochs=4)
    return {'validated': model.validated, 'seen': model.seen, 'p': model.p}


@case
def C118():
    class TwoParts(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.head, self.backbone = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
            self.rates, self.trains = [], []

        def training_step(self, batch, batch_idx):
            return self.head(self.backbone(batch)).sum()

        def on_train_batch_start(self, batch, batch_idx):
            self.rates.append([group['lr'] for group in self.trainer.optimizers[0].param_groups])
            self.trains.append(self.backbone.weight.requires_grad)

        def configure_optimizers(self):
            return torch.optim.SGD(self.head.parameters(), lr=0.1)
    model = TwoParts()
    fit(model, 1, [plc.BackboneFinetuning(unfreeze_backbone_at_epoch=2)], max_epochs=6)
    return {'lr': model.rates, 'trains': model.trains}
