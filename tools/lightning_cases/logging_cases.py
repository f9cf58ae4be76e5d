"""Section 11.7: what loggers receive, reductions, where a metric is logged."""

from .base import P, Rows, Sized, case, fit, line, trainer


class Logs(P):
    def training_step(self, batch, batch_idx):
        self.log('a', float(batch_idx), on_step=True, on_epoch=True)
        return -self.p

    def on_train_epoch_end(self):
        self.log('te', float(self.current_epoch))

    def validation_step(self, batch, batch_idx):
        self.log('v', 7.0)


def lines(n, **options):
    rows = Rows()
    fit(Logs(), n, val=1, logger=rows, **options)
    return rows.lines()


@case
def C75():
    return {'rows': lines(4, max_epochs=2, log_every_n_steps=2)}


@case
def C77():
    return {'every 50': lines(5, max_epochs=1), 'every 0': lines(5, max_epochs=1, log_every_n_steps=0)}


@case
def C78():
    class Reduces(P):
        def training_step(self, batch, batch_idx):
            b = float(batch_idx)
            self.log('mean', b, on_epoch=True)
            self.log('once', b, on_epoch=True, batch_size=1)
            self.log('sum', b, on_epoch=True, on_step=False, reduce_fx='sum')
            self.log('max', b, on_epoch=True, on_step=False, reduce_fx='max')
            return -self.p
    values = fit(Reduces(), Sized(3, sizes=[4, 4, 2]), max_epochs=1).callback_metrics
    return {'mean': values['mean'], 'mean, batch_size 1': values['once'], 'sum': values['sum'], 'max': values['max']}


@case
def C79():
    class Loaders(P):
        def validation_step(self, batch, batch_idx, dataloader_idx):
            self.log('v', batch.item())
            self.log('b', batch.item(), on_step=True, on_epoch=True)

        def on_validation_epoch_end(self):
            self.log('end', 7.0)
    rows = Rows()
    first, second = trainer(logger=rows, max_epochs=1).validate(Loaders(), [Sized(3), Sized(2)], verbose=False)
    found = rows.lines()
    return {
        'step rows': found[:-1],
        'epoch row': found[-1],
        'results 0': [line(0, first)],
        'results 1': [line(0, second)],
    }


@case
def C80():
    class Anywhere(P):
        def on_train_start(self):
            self.log('train_start', 1.0)

        def on_train_epoch_start(self):
            self.log('epoch_start', 1.0)

        def on_train_batch_start(self, batch, batch_idx):
            self.log('batch_start', 1.0)

        def training_step(self, batch, batch_idx):
            self.log('in_step', 1.0)
            return -self.p

        def on_before_backward(self, loss):
            self.log('before_backward', 1.0)

        def validation_step(self, batch, batch_idx):
            pass

        def on_validation_start(self):
            self.log('validation_start', 1.0)

        def on_validation_batch_end(self, *rest):
            self.log('validation_batch_end', 1.0)
    rows = Rows()
    fit(Anywhere(), 3, val=2, max_epochs=1, logger=rows, log_every_n_steps=1)
    names = (
        'batch_start',
        'in_step',
        'before_backward',
        'train_start',
        'epoch_start',
        'validation_start',
        'validation_batch_end',
    )
    return {name: sum(name in cells for _, cells in rows.rows) for name in names}


@case
def C82():
    class Twice(P):
        def training_step(self, batch, batch_idx):
            for value in (1.0, 3.0):
                self.log('v', value, on_step=False, on_epoch=True)
                self.log('w', value, on_step=False, on_epoch=True, reduce_fx='max')
            return -self.p
    values = fit(Twice(), 2, max_epochs=1).callback_metrics
    return {'mean': values['v'], 'max': values['w']}
