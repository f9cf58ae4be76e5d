"""Section 11.1: accumulation."""

from lightning.pytorch import callbacks as plc

from .base import P, Positions, case, fit, outcome


def windows(n, k, epochs):
    at = Positions()
    t = fit(P(), n, [at], max_epochs=epochs, accumulate_grad_batches=k)
    return t, at


@case
def C1():
    t, at = windows(5, 2, 2)
    return {'gs': t.global_step, 'epoch': t.current_epoch, 'steps': at.steps, 'clears': at.clears}


@case
def C2():
    t, at = windows(6, 3, 2)
    return {'gs': t.global_step, 'steps': at.steps}


@case
def C3():
    t, at = windows(7, 3, 2)
    return {'gs': t.global_step, 'steps': at.steps, 'clears': at.clears}


@case
def C4():
    whole, at_whole = windows(4, 4, 2)
    cut, at_cut = windows(3, 4, 2)
    return {'n4 gs': whole.global_step, 'n4 steps': at_whole.steps, 'n3 gs': cut.global_step, 'n3 steps': at_cut.steps}


def course(scheduling, n, epochs):
    at = Positions()
    t = fit(P(), n, [at, plc.GradientAccumulationScheduler(scheduling)], max_epochs=epochs)
    return [sum(e == epoch for e, _ in at.steps) for epoch in range(epochs)], at.steps, t.global_step


@case
def C6():
    per_epoch, steps, gs = course({1: 2, 3: 4}, 10, 4)
    return {'per epoch': per_epoch, 'gs': gs, 'epoch 3': steps[-3:]}


@case
def C7():
    per_epoch, _, gs = course({0: 8, 4: 4, 8: 1}, 8, 10)
    return {'per epoch': per_epoch, 'gs': gs}


@case
def C8():
    model = P()
    fit(model, 5, max_epochs=1, accumulate_grad_batches=2)
    return {'seen': model.seen, 'p': model.p}


@case
def C9():
    class Slope(P):
        def training_step(self, batch, batch_idx):
            return self.p * (batch_idx + 1)

        def on_before_optimizer_step(self, optimizer):
            self.seen.append(self.p.grad.item())

    def stepped(n):
        model = Slope()
        fit(model, n, max_epochs=1, accumulate_grad_batches=2)
        return model.seen
    return {'n4': stepped(4), 'n5': stepped(5)}


@case
def C10():
    class Extra(P):
        def training_step(self, batch, batch_idx):
            return {'loss': self.p * 0 + 6.0, 'extra': 7.0}

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.seen.append((outputs['loss'].item(), outputs['extra'], outputs['loss'].requires_grad))
    model = Extra()
    fit(model, 5, max_epochs=1, accumulate_grad_batches=3)
    return {'n5': [(loss, extra) for loss, extra, _ in model.seen], 'has graph': [graph for _, _, graph in model.seen]}


@case
def C12():
    return {'K0': outcome(lambda: fit(P(), 2, max_epochs=1, accumulate_grad_batches=0))}
