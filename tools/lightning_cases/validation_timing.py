"""Section 11.2: when validation runs."""

import contextlib
from datetime import timedelta
from unittest import mock

from .base import P, Positions, Unsized, Validated, case, fit, hook, outcome


def validations(loader, **options):
    at = Positions()
    fit(Validated(), loader, [at], val=1, **options)
    return at.validations


@case
def C13():
    return {'V(1.0)': validations(10, max_epochs=2)}


@case
def C14():
    found = {
        f'V({text})': validations(10, max_epochs=2, val_check_interval=float(text))
        for text in ('.5', '.3', '.25', '.01')
    }
    return {**found, 'n64 V(1/3)': validations(64, max_epochs=2, val_check_interval=1 / 3)}


@case
def C16():
    return {'V(3)': validations(10, max_epochs=2, val_check_interval=3)}


@case
def C17():
    return {'V(3)': validations(4, max_steps=12, val_check_interval=3, check_val_every_n_epoch=None)}


@case
def C18():
    return {'n2': validations(2, max_epochs=5, check_val_every_n_epoch=2)}


@case
def C20():
    return {'V(5) n4': outcome(lambda: validations(4, max_epochs=1, val_check_interval=5)),
            'V(5) n4 N_v none': validations(4, max_epochs=2, val_check_interval=5, check_val_every_n_epoch=None)}


@contextlib.contextmanager
def clock(tick):
    class Fake:
        now = 0

        @classmethod
        def monotonic(cls):
            cls.now += tick
            return cls.now
    loops = 'lightning.pytorch.loops.'
    with mock.patch(loops + 'fit_loop.time', Fake), mock.patch(loops + 'training_epoch_loop.time', Fake), \
            mock.patch(loops + 'evaluation_loop.time', Fake):
        yield Fake


@case
def C21():
    with clock(2):
        return {'V(2 s)': validations(5, max_steps=5, val_check_interval=timedelta(seconds=2))}


def by_clock(interval, n, every):
    with clock(1) as fake:
        at = Positions()

        def asks(t, *rest):
            if (t.current_epoch + 1) % (every or 1) != 0:
                fake.monotonic()

        fit(
            Validated(),
            n,
            [at, hook('on_train_batch_end', asks)],
            val=1,
            max_epochs=5,
            val_check_interval=timedelta(seconds=interval),
            check_val_every_n_epoch=every,
        )
    return [sum(e == epoch for e, _ in at.validations) for epoch in range(5)]


@case
def C22():
    return {'V(4 s)': by_clock(4, 2, None)}


@case
def C23():
    return {
        'N_v1 V(6 s) n8': by_clock(6, 8, 1),
        'N_v2 V(6 s) n9': by_clock(6, 9, 2),
        'N_v2 V(3 s) n9': by_clock(3, 9, 2),
        'N_v2 V(20 s) n9': by_clock(20, 9, 2),
    }


@case
def C24():
    return {
        'V(1.0)': validations(Unsized(7), max_epochs=2),
        'V(3)': validations(Unsized(7), max_epochs=2, val_check_interval=3),
    }


@case
def C25():
    return {'limit 5': validations(Unsized(7), max_epochs=2, limit_train_batches=5),
            'limit 5 V(2)': validations(Unsized(7), max_epochs=2, limit_train_batches=5, val_check_interval=2),
            'limit 20': validations(Unsized(7), max_epochs=2, limit_train_batches=20)}


@case
def C26():
    at = Positions()
    t = fit(Validated(), Unsized(7), [at], val=1, max_epochs=2, accumulate_grad_batches=3)
    return {'steps': at.steps, 'validations': at.validations, 'gs': t.global_step}


@case
def C27():
    return {'V(.5)': outcome(lambda: validations(Unsized(4), max_epochs=1, val_check_interval=0.5)),
            'limit .5': outcome(lambda: validations(Unsized(4), max_epochs=1, limit_train_batches=0.5))}


@case
def C29():
    class Draws(P):
        def __init__(self):
            super().__init__()
            self.order, self.metric, self.counts = [], [], []

        def training_step(self, batch, batch_idx):
            self.order.append('train')
            return -self.p

        def on_validation_start(self):
            self.counts.append(0)

        def validation_step(self, batch, batch_idx):
            self.order.append('val')
            self.counts[-1] += 1
            self.log('v', 1.0)

        def on_train_start(self):
            self.metric.append('kept' if 'v' in self.trainer.callback_metrics else 'absent')

        def on_train_epoch_end(self):
            self.metric.append('there' if 'v' in self.trainer.callback_metrics else 'absent')

    def run(sanity, limit):
        model = Draws()
        fit(model, 2, val=5, max_epochs=1, limit_val_batches=limit, num_sanity_val_steps=sanity)
        return model
    one = run(2, 1)
    return {
        'order': one.order,
        'metric': one.metric,
        'batches: 2 of 5': run(2, 5).counts,
        'batches: all of 3': run(-1, 3).counts,
        'batches: none of 3': run(0, 3).counts,
    }
