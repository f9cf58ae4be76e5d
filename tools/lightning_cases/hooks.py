"""C154: hook sequences. A callback, a model and a data module that write down what is called on them."""

import lightning.pytorch as pl
import torch

from .base import P, Sized, case, fit, trainer

PER_STAGE = ['start', 'end', 'epoch_start', 'epoch_end', 'batch_start', 'batch_end']
EVENTS = [
    'setup',
    'teardown',
    'on_fit_start',
    'on_fit_end',
    'on_sanity_check_start',
    'on_sanity_check_end',
    'on_before_zero_grad',
    'on_before_backward',
    'on_after_backward',
    'on_before_optimizer_step',
    *(f'on_{stage}_{event}' for stage in ('train', 'validation', 'test', 'predict') for event in PER_STAGE),
]
OVERRIDES = [
    'prepare_data',
    'configure_model',
    'backward',
    'optimizer_step',
    'optimizer_zero_grad',
    'configure_gradient_clipping',
    'lr_scheduler_step',
    'on_validation_model_zero_grad',
    'on_validation_model_eval',
    'on_validation_model_train',
    'on_test_model_eval',
    'on_test_model_train',
    'on_predict_model_eval',
]


def noting(trace, prefix, base, names):
    """A class of `base` whose methods of these names are written down and then do what they did."""
    def method(name):
        def call(self, *args, **kwargs):
            trace.append(prefix + name)
            return getattr(super(made, self), name)(*args, **kwargs)
        return call
    made = type(base.__name__, (base,), {name: method(name) for name in names if hasattr(base, name)})
    return made


def witnesses(base, overrides=()):
    trace = []
    return trace, noting(trace, 'C.', pl.Callback, EVENTS)(), noting(trace, '', base, [*EVENTS, *overrides])


class Data(pl.LightningDataModule):
    def __init__(self, evaluated=1):
        super().__init__()
        self.evaluated = evaluated

    def train_dataloader(self):
        return Sized(2)

    def val_dataloader(self):
        return Sized(self.evaluated)

    test_dataloader = predict_dataloader = val_dataloader


def everything(evaluated=1):
    class Steps(P):
        def training_step(self, batch, batch_idx):
            trace.append('training_step')
            return -self.p

        def validation_step(self, batch, batch_idx):
            trace.append('validation_step')

        def test_step(self, batch, batch_idx):
            trace.append('test_step')

        def predict_step(self, batch, batch_idx):
            trace.append('predict_step')

        def configure_optimizers(self):
            trace.append('configure_optimizers')
            optimizer = torch.optim.SGD([self.p], lr=1.0)
            return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)]
    trace = []
    Model = noting(trace, '', Steps, EVENTS + OVERRIDES)
    Module = noting(
        trace,
        'D.',
        Data,
        [
            'prepare_data',
            'setup',
            'teardown',
            'train_dataloader',
            'val_dataloader',
            'test_dataloader',
            'predict_dataloader',
            'on_before_batch_transfer',
            'transfer_batch_to_device',
            'on_after_batch_transfer',
        ],
    )
    return trace, noting(trace, 'C.', pl.Callback, EVENTS)(), Model(), Module(evaluated)


def traced(verb, evaluated=1, **options):
    trace, callback, model, data = everything(evaluated)
    getattr(trainer([callback], max_epochs=1, **options), verb)(model, datamodule=data)
    return trace


@case
def C154():
    trace, callback, Model = witnesses(P, ['backward'])

    class Manual(Model):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            trace.append('training_step')
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(-self.p)
            optimizer.step()
            trace.append('stepped')
    fit(Manual(), 2, [callback], max_epochs=1)
    return {
        'fit': traced('fit', accumulate_grad_batches=2, gradient_clip_val=0.5, num_sanity_val_steps=2),
        'manual': trace,
        'validation': traced('validate', 2),
        'test': traced('test', 2),
        'predict': traced('predict', 3),
        'no batches': traced('validate', limit_val_batches=0),
    }
