"""Section 11.5: the closure of a step, steps without a loss, clipping."""

import collections

import lightning.pytorch as pl
import torch

from .base import P, Sized, case, fit, outcome


class Notes(P):
    def __init__(self):
        super().__init__()
        self.trace, self.at = [], 0

    def training_step(self, batch, batch_idx):
        self.at = batch_idx
        self.trace.append('forward')
        return -self.p

    def on_before_zero_grad(self, optimizer):
        self.trace.append('clear')

    def on_before_backward(self, loss):
        self.trace.append('backward')

    def on_before_optimizer_step(self, optimizer):
        self.trace.append(f'step {self.at}')

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.trace.append('clip')


class SkipsOdd(Notes):
    def __init__(self):
        super().__init__()
        self.with_loss = []

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return None if batch_idx % 2 else loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD([self.p], lr=1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
        return {'optimizer': optimizer, 'lr_scheduler': {'scheduler': scheduler, 'interval': 'step'}}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.with_loss.append(bool(outputs))
        self.trace.append(f'moves {self.lr_schedulers().last_epoch}')


@case
def C55():
    model = SkipsOdd()
    t = fit(model, 4, max_epochs=1)
    return {'trace': model.trace, 'outputs': model.with_loss, 'gs': t.global_step, 'p': model.p}


@case
def C56():
    model = SkipsOdd()
    t = fit(model, 4, max_epochs=1, accumulate_grad_batches=2)
    return {'trace': model.trace, 'gs': t.global_step, 'p': model.p}


@case
def C58():
    class Forgets(P):
        def optimizer_step(self, *args, **kwargs):
            pass
    return {'n1': outcome(lambda: fit(Forgets(), 1, max_epochs=1))}


@case
def C59():
    class Repeats(Notes):
        def configure_optimizers(self):
            return torch.optim.LBFGS([self.p], max_iter=4, tolerance_grad=-1, tolerance_change=-1)
    model = Repeats()
    t = fit(model, 2, max_epochs=1)
    count = collections.Counter(word.split()[0] for word in model.trace)
    return {
        'training steps': count['forward'],
        'clearings': count['clear'],
        'backwards': count['backward'],
        'before step': count['step'],
        'clippings': count['clip'],
        'gs': t.global_step,
    }


@case
def C60():
    class Unmoved(Notes):
        def configure_optimizers(self):
            return None
    model = Unmoved()
    t = fit(model, 2, max_epochs=1)
    return {'gs': t.global_step, 'p': model.p}


class Ones(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.asked = torch.nn.Linear(32, 2), 0

    def norm(self):
        return torch.cat([p.grad.flatten() for p in self.parameters()]).norm().item()

    def training_step(self, batch, batch_idx):
        return self.layer(torch.ones(1, 32)).sum()

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.asked, self.before = self.asked + 1, self.norm()
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        self.after, self.largest = self.norm(), max(p.grad.max().item() for p in self.parameters())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def clipped(**options):
    model = Ones()
    fit(model, 1, max_epochs=1, **options)
    return model


@case
def C61():
    model = clipped(gradient_clip_val=0.5)
    return {'before': model.before, 'after': model.after, 'largest': model.largest}


@case
def C62():
    by_value, unset = clipped(gradient_clip_val=0.5, gradient_clip_algorithm='value'), clipped()
    return {
        'value: largest': by_value.largest,
        'value: after': by_value.after,
        'unset: after': unset.after,
        'unset: asked': unset.asked,
        '0': outcome(lambda: clipped(gradient_clip_val=0, gradient_clip_algorithm='value')),
        '-1': outcome(lambda: clipped(gradient_clip_val=-1)),
    }


@case
def C63():
    def p(limit):
        model = P()
        fit(model, 3, max_epochs=1, gradient_clip_val=limit)
        return model.p
    return {'p': p(0.25), 'p, norm 50': p(50)}


@case
def C64():
    class Doubles(P):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            factor = 2 if self.current_epoch >= 1 else 1
            self.clip_gradients(optimizer, gradient_clip_val * factor, gradient_clip_algorithm)

    return {
        'doubled': outcome(
            lambda: fit(Doubles(), 1, max_epochs=2, gradient_clip_val=0.25, gradient_clip_algorithm='value')
        )
    }


@case
def C66():
    class Sparse(P):
        def training_step(self, batch, batch_idx):
            self.seen.append('step')
            return -self.p

        def on_train_batch_start(self, batch, batch_idx):
            self.seen.append('start')

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.seen.append('end')
    model, loader = Sparse(), Sized(3)
    loader.batches[1] = None
    t = fit(model, loader, max_epochs=1)
    return {'trace': model.seen, 'gs': t.global_step}
