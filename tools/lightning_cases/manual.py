"""Section 11.6: manual optimization."""

import torch

from .base import P, case, fit, outcome
from .hooks import witnesses


class Manual(P):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False


@case
def C67():
    never = ['optimizer_step', 'optimizer_zero_grad', 'configure_gradient_clipping', 'lr_scheduler_step']
    trace, callback, Model = witnesses(Manual, never)

    class Witnessed(Model):
        def training_step(self, batch, batch_idx):
            trace.append('training_step')
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(-self.p)
            optimizer.step()

        def configure_optimizers(self):
            optimizer = torch.optim.SGD([self.p], lr=1.0)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
            return [optimizer], [{'scheduler': scheduler, 'interval': 'step'}]
    t = fit(Witnessed(), 2, [callback], max_epochs=1)
    return {'trace': trace, 'gs': t.global_step}


class Halves(Manual):
    def training_step(self, batch, batch_idx):
        self.seen.append(self.p.item())
        optimizer = self.optimizers()
        self.manual_backward(-self.p / 2)
        if (batch_idx + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()


@case
def C69():
    return {'clip .5': outcome(lambda: fit(Halves(), 2, max_epochs=1, gradient_clip_val=0.5)),
            'K2': outcome(lambda: fit(Halves(), 2, max_epochs=1, accumulate_grad_batches=2))}


@case
def C73():
    class Scheduled(Manual):
        moves = False

        def configure_optimizers(self):
            optimizer = torch.optim.SGD([self.p], lr=1.0)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))
            return {'optimizer': optimizer, 'lr_scheduler': {'scheduler': scheduler, 'interval': 'step'}}

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            self.seen.append(optimizer.param_groups[0]['lr'])
            optimizer.zero_grad()
            self.manual_backward(-self.p)
            optimizer.step()
            if self.moves and batch_idx % 2 == 1:
                self.lr_schedulers().step()

    def rates(moves):
        model = Scheduled()
        model.moves = moves
        fit(model, 5, max_epochs=1)
        return model.seen
    return {'not told': rates(False), 'told after b 1, 3': rates(True)}


@case
def C74():
    model = Halves()
    t = fit(model, 3, max_epochs=2)
    return {'seen': model.seen, 'gs': t.global_step}
