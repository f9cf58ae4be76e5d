"""Section 11.4: how training ends."""

import lightning.pytorch as pl
import torch

from .base import P, Positions, Validated, case, fit, hook, outcome, stop_at


class Scheduling(Validated):
    moves = 0

    def configure_optimizers(self):
        optimizer = torch.optim.SGD([self.p], lr=1.0)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)]

    def on_train_end(self):
        self.moves = self.lr_schedulers().last_epoch


class Frames(pl.Callback):
    def __init__(self):
        self.seen = []

    def on_sanity_check_start(self, *rest):
        self.seen.append('sanity')

    def on_train_start(self, *rest):
        self.seen.append('train_start')

    def on_train_batch_start(self, *rest):
        self.seen.append('batch')

    def on_train_end(self, *rest):
        self.seen.append('train_end')

    def on_fit_end(self, *rest):
        self.seen.append('fit_end')


def ended(n, callbacks=(), **options):
    frames = Frames()
    return fit(Validated(), n, [frames, *callbacks], val=1, **options), frames.seen


@case
def C45():
    model, at = Scheduling(), Positions()
    t = fit(model, 4, [at, stop_at(1, 1)], val=1, max_epochs=5)
    return {'gs': t.global_step, 'epoch': t.current_epoch, 'validations': at.validations, 'moves': [model.moves]}


@case
def C47():
    t = fit(P(), 8, [stop_at(1, 1)], max_epochs=5, accumulate_grad_batches=4)
    return {'gs': t.global_step, 'epoch': t.current_epoch}


@case
def C48():
    def stop():
        return hook('on_fit_start', lambda t, model: setattr(t, 'should_stop', True))
    none, hooks = ended(2, [stop()], max_epochs=5)
    steps, _ = ended(2, [stop()], max_epochs=5, min_steps=3)
    return {
        'gs': none.global_step,
        'hooks': hooks,
        'min_epochs 2: gs': ended(2, [stop()], max_epochs=5, min_epochs=2)[0].global_step,
        'min_steps 3: gs': steps.global_step,
        'min_steps 3: epoch': steps.current_epoch,
    }


@case
def C49():
    return {'min 5 max 3': outcome(lambda: ended(2, max_epochs=3, min_epochs=5))}


@case
def C50():
    epochs, of_epochs = ended(4, max_epochs=0, num_sanity_val_steps=2)
    steps, of_steps = ended(4, max_steps=0, num_sanity_val_steps=2)
    return {
        'E0: gs': epochs.global_step,
        'E0: hooks': of_epochs,
        'max_steps 0: gs': steps.global_step,
        'max_steps 0: hooks': of_steps,
    }


@case
def C52():
    none, hooks = ended(4, max_time={'seconds': 0})
    steps, _ = ended(4, max_time={'seconds': 0}, min_steps=3)
    return {
        'gs': none.global_step,
        'hooks': hooks,
        'min_epochs 2: gs': ended(4, max_time={'seconds': 0}, min_epochs=2)[0].global_step,
        'min_steps 3: gs': steps.global_step,
        'min_steps 3: epoch': steps.current_epoch,
        'both: gs': ended(4, max_time={'seconds': 0}, min_epochs=2, min_steps=3)[0].global_step,
    }


class SkipAtTwo(Scheduling):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 2 else None


@case
def C53():
    model, at, ends, epochs = SkipAtTwo(), Positions(), [], []
    t = fit(
        model,
        5,
        [
            at,
            hook('on_train_batch_end', lambda t, *rest: ends.append((t.current_epoch, rest[-1]))),
            hook('on_train_epoch_end', lambda t, model: epochs.append(t.current_epoch)),
        ],
        val=1,
        max_epochs=2,
    )
    return {
        'starts': at.batches,
        'ends': ends,
        'epoch ends': epochs,
        'validations': at.validations,
        'gs': t.global_step,
        'moves': [model.moves],
    }


@case
def C54():
    model = SkipAtTwo()
    t = fit(model, 5, val=1, max_epochs=2, accumulate_grad_batches=4)
    return {'gs': t.global_step, 'p': model.p, 'moves': [model.moves]}
