"""Starts the trainee as one process and as several, and compares what each rank wrote; prints TAP.

    ranks.py TRAINEE [--only REGEX]

Every start has a time limit. What is compared: the bits of all weights after each step, over ranks; the weights of k
ranks with batches of b samples with those of one process with k * b; and what is said when something goes wrong."""

import argparse
import concurrent.futures
import fcntl
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds for any start; a hang is a failure
CASES = []


def case(function):
    CASES.append(function)
    return function


def alone(function):
    """For a case beside which no other may run: it looks at all processes of the machine, or changes its own."""
    function.alone = True
    return function


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Failed(what)


class Start:
    """One start of the trainee, with all its ranks: exit status, what it said, and the steps each rank wrote."""

    def __init__(self, trainee, world, folder, words, env=None, prepare=None, launcher=()):
        out = pathlib.Path(tempfile.mkdtemp(dir=folder))
        command = [*launcher, trainee, '--out', str(out), *words]
        launchers = re.compile('RANK|WORLD|LOCAL_|MASTER|SLURM|OMPI|PMI|OMP_|MKL_NUM')
        clean = {name: value for name, value in os.environ.items() if not launchers.match(name)}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command, env=clean | (env or {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=prepare
        )
        self.out, self.world = out, world

    def wait(self):
        try:
            self.stdout, self.stderr = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            raise Failed(f'nothing ended it within {LIMIT} s')
        self.took = time.monotonic() - self.began
        self.code = self.process.returncode
        return self

    def fine(self):
        self.wait()
        need(self.code == 0, f'it returned {self.code}: {self.stderr}')
        return self

    def steps(self, rank=0):
        return (self.out / f'rank{rank}').read_text().splitlines()

    def weights(self):
        return [[float(word) for word in line.split()[1:]] for line in self.steps()]

    def alike(self):
        """All ranks have the same bits after every step."""
        need(len(self.steps()) > 0, 'no step was written')
        for rank in range(1, self.world):
            need(self.steps(rank) == self.steps(), f'rank {rank} has other bits than rank 0')
        return self

    def said(self, *words):
        for word in words:
            need(re.search(word, self.stderr), f'nothing says {word!r}: {self.stderr}')
        return self


class Lab:
    def __init__(self, trainee, folder):
        self.trainee, self.folder = trainee, folder

    def own(self, world, *words, env=None):
        return Start(self.trainee, world, self.folder, ['--devices', str(world), *words], env)

    def launched(self, rank, world, port, *words, env=None):
        """One rank as torchrun would start it."""
        variables = {'RANK': rank, 'LOCAL_RANK': rank, 'WORLD_SIZE': world, 'LOCAL_WORLD_SIZE': world,
                     'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port}
        return Start(self.trainee, world, self.folder, words, {k: str(v) for k, v in variables.items()} | (env or {}))

    def under(self, world, launcher, *words, env=None):
        """All ranks, started by another program."""
        return Start(self.trainee, world, self.folder, words, env, launcher=launcher)

    def torchrun(self, world, *words, options=()):
        """FULGURITE_TORCHRUN is a command; else torchrun on the PATH, else the module of a Python that has it."""
        command = shlex.split(os.environ.get('FULGURITE_TORCHRUN', ''))
        if not command and shutil.which('torchrun'):
            command = ['torchrun']
        if not command:
            command = [sys.executable, '-m', 'torch.distributed.run']
        if subprocess.run([*command, '--help'], capture_output=True, check=False, timeout=LIMIT).returncode != 0:
            raise Skipped('torchrun is not there, or lacks packages: FULGURITE_TORCHRUN can name one')
        # The agent looks after its workers ten times a second. Behind -- it takes no option of the program for its own.
        launcher = [*command, '--no-python', f'--nproc-per-node={world}', f'--master-port={free_port()}',
                    '--monitor-interval=0.1', *options, '--']
        return self.under(world, launcher, *words)

    def single(self, *words):
        return Start(self.trainee, 1, self.folder, words, {'OMP_NUM_THREADS': '1'}).fine()

    def gpus(self, least=1):
        """How many this program could use with NCCL; the case is skipped where there are fewer than it needs."""
        count = int(subprocess.run([self.trainee, '--gpus', '1'], capture_output=True, text=True, timeout=LIMIT).stdout)
        if count < least:
            raise Skipped(f'NCCL and {least} GPUs are needed, and there are {count}')
        return count

    def ends(self, world, *words, says, most=15, code=1):
        """A run that goes wrong ends, in time, with a sentence."""
        start = self.own(world, *words).wait()
        need(start.code == code, f'it returned {start.code}: {start.stderr}')
        need(start.took < most, f'it took {start.took:.1f} s')
        left = subprocess.run(['pgrep', '-f', str(start.out)], capture_output=True, text=True, timeout=LIMIT).stdout
        need(not left, f'processes are left over: {left}')
        return start.said(*says)


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


def apart(left, right):
    return max(abs(a - b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))


@case
def sums_of_whole_numbers_are_those_of_one_process(lab):
    for engine in 'gloo', 'ordered':
        for world, batch in (2, 4), (4, 2):
            words = '--model', 'exact', '--steps', '3'
            start = lab.own(world, '--engine', engine, '--batch', str(batch), *words).fine().alike()
            single = lab.single('--run', 'single', '--batch', '8', *words)
            need(start.steps() == single.steps(), f'{world} ranks on {engine}: {start.steps()} and {single.steps()}')


@case
def two_and_four_ranks_have_equal_bits_and_take_the_step_of_one_process(lab):
    for run, alone in ('ours', 'single'), ('torch', 'torch-single'):
        single = lab.single('--run', alone, '--batch', '8', '--steps', '6').weights()
        for engine, world in ('gloo', 2), ('gloo', 4), ('ordered', 4):
            words = '--engine', engine, '--run', run, '--batch', str(8 // world), '--steps', '6'
            far = apart(lab.own(world, *words).fine().alike().weights(), single)
            bound = 2e-6 if run == 'ours' else 2e-5  # Adam divides by what may be small
            need(far < bound, f'{run}, {world} ranks on {engine}: {far}')


@case
def ranks_that_the_system_reaps_have_not_failed(lab):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    Start(lab.trainee, 2, lab.folder, ['--devices', '2', '--steps', '2'], prepare=ignore).fine()


@case
def a_window_is_exchanged_once_and_clipped_as_a_whole(lab):
    words = '--accumulate', '2', '--clip', '1', '--steps', '6'
    start = lab.own(2, '--engine', 'ordered', '--batch', '4', *words).fine().alike()
    need('3 all-reduces' in start.stdout, start.stdout)
    single = lab.single('--run', 'single', '--batch', '8', *words)
    need(apart(start.weights(), single.weights()) < 2e-6, apart(start.weights(), single.weights()))


def sums(start):
    """All-reduces of gradients, and how many of them were begun while backward went on, of all ranks."""
    found = re.findall(r'(\d+) all-reduces of gradients, \d+ bytes in all, (\d+) begun in backward', start.stdout)
    need(len(found) == start.world, start.stdout)
    return [(int(all_), int(early)) for all_, early in found]


# 64 bytes make a bucket of each of the four parameters, of which three can be full before backward ends.
SMALL = '--bucket-bytes', '64'


@case
def buckets_begin_in_backward_and_have_the_bits_of_one_all_reduce(lab):
    for world, engine, words in ((2, 'gloo', ()), (4, 'ordered', ()), (2, 'ordered', ('--run', 'torch')),
                                 (2, 'gloo', ('--bf16', '1')), (2, 'gloo', ('--run', 'bf16'))):
        words = '--engine', engine, '--steps', '6', *words
        whole = lab.own(world, *words).fine().alike()
        parts = lab.own(world, *SMALL, *words).fine().alike()
        need(parts.steps() == whole.steps(), f'{world} ranks on {engine}, {words}: other bits')
        need(sums(whole) == [(6, 0)] * world, sums(whole))
        # Without an arena, or with half the bytes, the last two parameters fit into one bucket.
        count = 3 if 'torch' in words or '--bf16' in words else 4
        # Before the first step nothing is known, and the last bucket is begun when backward has ended.
        need(sums(parts) == [(6 * count, 5 * (count - 1))] * world, f'{words}: {sums(parts)}')


@case
def buckets_wait_for_the_end_of_a_window(lab):
    words = '--accumulate', '2', '--clip', '1', '--steps', '6', '--engine', 'ordered'
    parts = lab.own(2, *SMALL, *words).fine().alike()
    need(parts.steps() == lab.own(2, *words).fine().steps(), 'other bits')
    need(sums(parts) == [(12, 6)] * 2, sums(parts))


@case
def buckets_of_layers_that_a_rank_leaves_out_come_in_the_same_order(lab):
    for engine, words in (('gloo', ('--model', 'half')), ('gloo', ('--model', 'half', '--run', 'torch')),
                          ('ordered', ('--model', 'sync', '--sync', '1')), ('gloo', ('--model', 'half-sync')),
                          ('gloo', ('--model', 'norm'))):
        words = '--engine', engine, '--steps', '6', *words
        parts = lab.own(2, *SMALL, *words).fine().alike()
        need(parts.steps() == lab.own(2, *words).fine().steps(), f'{words}: other bits')
        need('half' in words[5] or sums(parts)[0][1] > 0, f'{words}: {sums(parts)}')


@case
def gradients_that_change_after_they_were_sent_are_sent_again(lab):
    words = '--run', 'changes', '--engine', 'ordered', '--steps', '6'
    parts = lab.own(2, *SMALL, *words).fine().alike()
    need(parts.steps() == lab.own(2, *words).fine().steps() != lab.own(2, '--steps', '6').fine().steps(), 'other bits')
    need(sums(parts) == [(36, 9)] * 2, sums(parts))  # three times, and then they wait for the end of backward
    lab.ends(2, *SMALL, *words, '--freezes', '2', says=['fulgurite.distributed.parameters_changed'])


@case
def recorded_steps_and_turns_by_hand_are_exchanged_after_backward(lab):
    for words in ('--run', 'captured', '--steps', '12'), ('--run', 'pair', '--batch', '4'):
        words = '--engine', 'ordered', *words
        parts = lab.own(2, *SMALL, *words).fine().alike()
        need(parts.steps() == lab.own(2, *words).fine().steps(), f'{words}: other bits')
        need(sums(parts)[0][1] == 0, f'{words}: {sums(parts)}')


@case
def a_rank_that_fails_between_buckets_ends_the_others(lab):
    lab.ends(2, *SMALL, '--fault', 'backward:1:1', says=[KILLED])
    lab.ends(2, *SMALL, '--engine', 'ordered', '--fault', 'collective:1:6', says=[KILLED])
    says = 'fulgurite.distributed.timeout', 'exchanging gradients', 'did not come: 1'
    lab.ends(2, *SMALL, '--timeout', '3000', '--fault', 'stop:1:2', says=says)
    lab.own(2, '--bucket-bytes', '-1').wait().said('fulgurite.distributed.options', 'bucket_cap_mb')


@case
def buffers_are_those_of_rank_0_after_each_step(lab):
    lab.own(2, '--model', 'norm').fine().alike()


@case
def statistics_of_averaged_weights_are_those_of_the_batches_of_all_ranks(lab):
    words = '--model', 'norm', '--steps', '5'
    for more in (), ('--fewer', '2'):  # of one rank fewer batches than of the other
        start = lab.own(2, '--run', 'swa', *words, *more).fine().alike()
        need(start.steps()[-1] != start.steps()[-2], 'nothing was averaged')
    start = lab.own(2, '--run', 'swa', '--still', '1', *words).fine().alike()
    single = lab.single('--run', 'swa-single', '--still', '1', *words)
    far = apart(start.weights()[-1:], single.weights()[-1:])
    need(far < 1e-6, f'{far} from one process with the same batches')
    need(apart(start.weights()[-1:], start.weights()[-2:-1]) > 1e-3, 'the pass changed no statistics')


@case
def a_rate_is_found_and_a_fit_stopped_by_all_ranks_together(lab):
    for world in 2, 3:
        start = lab.own(world, '--run', 'watched').fine().alike()
        ended = re.findall(r'ended after (\d+) steps with lr (\S+)', start.stdout)
        need(len(ended) == world and len(set(ended)) == 1, f'they end differently: {start.stdout}')
        need(0 < int(ended[0][0]) < 12 * 16 // world and float(ended[0][1]) != 0.125, ended[0])
        need(start.steps()[-1] != start.steps()[-2], 'the average of the weights was not taken')


@case
def a_signal_to_any_rank_ends_all_with_a_file_from_which_they_go_on(lab):
    whole = lab.own(2, '--run', 'signals', '--keeps', f'{lab.folder}/whole').fine().alike().steps()
    for rank in 0, 1:
        words = '--run', 'signals', '--keeps', f'{lab.folder}/{rank}'
        term = f'term:{rank}:5'
        start = lab.ends(2, *words, '--fault', term, says=['fulgurite.run.interrupted'], code=128 + signal.SIGTERM)
        need(len(start.alike().steps()) < 16, 'it did not end')
        need(start.stderr.count('fulgurite.run.interrupted') == 2, start.stderr)
        again = lab.own(2, *words).fine().alike().steps()
        need(start.steps() + again == whole, f'{len(start.steps())} and {len(again)} steps: other bits')


@case
def a_rank_that_does_not_use_a_layer_still_has_the_bits_of_the_others(lab):
    for run in 'ours', 'torch':
        for model in 'half', 'half-last':
            lab.own(2, '--model', model, '--run', run).fine().alike()


@case
def who_says_that_all_steps_use_the_same_parameters_waits_for_no_others(lab):
    for engine, run in ('gloo', 'ours'), ('ordered', 'torch'):
        words = '--engine', engine, '--run', run, '--model', 'half', '--steps', '6', *SMALL
        plain, static = (lab.own(2, *words, '--static-graph', on).fine().alike() for on in '01')
        need(static.steps() == plain.steps(), f'{run}: other bits')
        # Of the last layer, whose buckets come first, rank 0 has no gradients.
        need(sums(plain)[0][1] == 0 or sums(plain)[1][1] == 0, sums(plain))
        count = sums(plain)[0][0] // 6
        need(sums(static) == [(6 * count, 5 * (count - 1))] * 2, f'{run}: {sums(static)}')
    says = 'fulgurite.distributed.static_graph', "'(second|third).weight' a gradient, and the first one did not"
    lab.ends(2, *words, '--static-graph', '1', '--swaps', '3', says=says)
    lab.own(2, *words, '--swaps', '3').fine().alike()


@case
def who_says_that_all_parameters_are_used_hears_of_one_that_is_not(lab):
    words = '--engine', 'ordered', '--finds-unused', '0'
    need(lab.own(2, *words).fine().alike().steps() == lab.own(2, *words[:2]).fine().steps(), 'other bits')
    says = 'fulgurite.distributed.unused_parameter', "'(second|third).weight' no gradient"
    lab.ends(2, *words, '--model', 'half', says=says)


@case
def weights_that_were_drawn_differently_become_those_of_rank_0(lab):
    lab.own(2, '--differs', '1').fine().alike()
    for run in 'plain', 'plain-sharded':  # also those that its optimizer has and the model does not show
        lab.own(2, '--run', run, '--differs', '1').fine().alike()


@case
def captured_steps_have_the_bits_of_steps_as_written(lab):
    words = '--engine', 'ordered', '--steps', '12'
    captured = lab.own(2, '--run', 'captured', *words).fine().alike()
    need(captured.steps() == lab.own(2, *words).fine().steps(), 'other bits than as written')
    need(re.search('[1-9][0-9]* .*replayed', captured.stdout), captured.stdout)


@case
def mixed_precision_and_compressed_gradients(lab):
    exact = lab.own(2, '--steps', '4').fine().weights()
    for words in ('--run', 'bf16'), ('--bf16', '1'):
        start = lab.own(2, '--steps', '4', *words).fine().alike()
        need(0 < apart(start.weights(), exact) < 0.05, apart(start.weights(), exact))
    half = lab.own(2, '--bf16', '1').fine().stdout
    whole = lab.own(2).fine().stdout
    count = [int(re.search(r'gradients, (\d+) bytes', text)[1]) for text in (half, whole)]
    need(2 * count[0] == count[1], f'{count} bytes')


@case
def float16_gradients_are_divided_before_they_are_summed(lab):
    for engine in 'gloo', 'ordered':
        lab.own(2, '--run', 'fp16', '--model', 'exact', '--steps', '1', '--engine', engine).fine().alike()


@case
def manual_optimization_exchanges_where_it_is_told_to(lab):
    start = lab.own(2, '--run', 'pair', '--engine', 'ordered', '--batch', '4').fine().alike()
    need('8 all-reduces' in start.stdout, start.stdout)


@case
def a_layer_that_two_optimizers_share_has_the_mean_of_all_ranks(lab):
    single = lab.single('--run', 'shared-single', '--batch', '8').weights()
    for words in (), SMALL:
        far = apart(lab.own(2, '--run', 'shared', '--batch', '4', *words).fine().alike().weights(), single)
        need(far < 2e-6, far)


@case
def several_processes_of_a_machine_compute_with_one_thread_each_unless_a_number_is_set(lab):
    def threads(*words, env=None):
        found = re.findall(r'threads (\d+)', Start(lab.trainee, 1, lab.folder, words, env).fine().stdout)
        return {int(count) for count in found}

    own = threads('--run', 'single')
    need(threads('--devices', '1') == own, 'a process alone has other threads than without a strategy')
    need(threads('--devices', '2') == {1}, 'two processes')
    for name in 'OMP_NUM_THREADS', 'MKL_NUM_THREADS':
        need(threads('--devices', '2', env={name: str(*own)}) == own, name)


@case
def the_bare_program_and_a_launcher_give_the_same_bits(lab):
    bare = lab.own(2).fine().alike()
    port = free_port()
    both = [lab.launched(rank, 2, port, env={'OMP_NUM_THREADS': '1'}) for rank in (0, 1)]
    for rank, start in enumerate(both):
        start.fine()
        need(start.steps(rank) == bare.steps(), f'rank {rank} has other bits')


@case
def ranks_that_start_again_from_the_last_file_end_with_the_bits_of_an_unbroken_run(lab):
    whole = lab.own(2, '--run', 'kept', '--keeps', f'{lab.folder}/whole').fine().alike().steps()
    need(len(whole) == 16, f'{len(whole)} steps, and a loader of 16 batches an epoch was to be shared by two')
    for fault in 'forward:1:5', 'forward:0:10', 'backward:1:12':
        words = '--run', 'kept', '--keeps', f'{lab.folder}/{fault}'
        need(lab.own(2, '--fault', fault, *words).wait().code != 0, 'nothing went wrong')
        again = lab.own(2, '--from', 'last', *words).fine().alike().steps()
        need(len(again) < 16 and again == whole[-len(again):], f'{fault}: other bits after {16 - len(again)} steps')


@case
def output_of_other_ranks_is_prefixed_or_silenced(lab):
    need('[rank 1] rank 1 of 2\n' in lab.own(2).fine().stdout, 'no prefix')
    need('rank 1' not in lab.own(2, '--silent', '1').fine().stdout, 'not silent')


@case
@alone
def output_that_is_read_slowly_is_not_lost(lab):
    never_waits = lambda: fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK)
    start = Start(lab.trainee, 2, lab.folder, ['--devices', '2', '--prints', '20000'], prepare=never_waits)
    time.sleep(3)
    found = re.findall(r'\[rank 1\] line (\d+) of many\n', start.fine().stdout)
    need(found == [str(i) for i in range(20000)], f'{len(found)} lines of 20000')


KILLED = r'rank 1 ended: it was killed by signal 9 \(SIGKILL\)'


@case
def a_killed_rank_ends_the_others(lab):
    for fault in 'forward:1:2', 'backward:1:1', 'validation:1:4':
        lab.ends(2, '--fault', fault, says=[KILLED])
    lab.ends(4, '--fault', 'forward:3:1', says=['rank 3 ended: it was killed'])
    lab.ends(2, '--engine', 'ordered', '--fault', 'collective:1:1', says=[KILLED])


@case
def rank_0_is_killed_and_nothing_is_left_over(lab):
    lab.ends(2, '--fault', 'forward:0:2', says=[], code=-signal.SIGKILL)
    lab.ends(2, '--saves', '1', '--fault', 'saving:0:4', says=[], code=-signal.SIGKILL)
    lab.ends(2, '--engine', 'ordered', '--fault', 'collective:0:1', says=[], code=-signal.SIGKILL)
    port = free_port()
    both = [lab.launched(rank, 2, port, '--engine', 'ordered', '--fault', 'collective:0:1') for rank in (0, 1)]
    both[1].wait().said('rank 0 ended: its store does not answer any more, so its process is gone')
    need(both[0].wait().code == -signal.SIGKILL and both[1].code == 1, both[1].code)


@case
def a_rank_that_is_killed_while_rank_0_saves_ends_it(lab):
    lab.ends(2, '--saves', '1', '--fault', 'saving:1:4', says=[KILLED])


@case
def the_rank_with_the_fewest_batches_ends_the_epoch_of_all(lab):
    for engine, world in ('gloo', 2), ('ordered', 4):
        start = lab.own(world, '--engine', engine, '--steps', '6', '--fewer', '2').fine().alike()
        need(len(start.steps()) == 4, start.steps())
        start.said('fulgurite.data.uneven', 'between 4 and 6 training batches')


@case
def by_hand_batches_that_one_rank_leaves_out_are_an_error_of_all_at_once(lab):
    for count in '1', '4':
        parted = 'fulgurite.distributed.parted'
        start = lab.ends(2, '--run', 'pair', '--steps', '8', '--leaves-out', count, says=[parted])
        need(len(re.findall(parted, start.stderr)) == 2, start.stderr)


@case
def by_hand_ranks_that_train_different_networks_are_told_at_once(lab):
    words = '--run', 'turns', '--steps', '6'
    lab.own(2, *words).fine().alike()
    for more, says in ((('--apart', '1'), "gradients of list 1 of parameters', rank 1 at 'gradients of list 2"),
                       (('--apart', '1', '--wide', '7'), 'gradients of list 1'),
                       (('--apart', '1', '--wide', '7', *SMALL), 'gradients of list 1'),
                       (('--apart', '2'), 'number 1 is'),
                       (('--apart', '1', '--turns', '0'), 'some have stepped optimizer 0')):
        start = lab.ends(2, *words, *more, says=[says])
        identifier = 'fulgurite.distributed.model' if '2' in more[:2] else 'fulgurite.distributed.parted'
        need(len(re.findall(identifier, start.stderr)) == 2, f'{more}: {start.stderr}')
        most = 3 if '--turns' in more else 2  # the step itself is told of with the next gradients
        need(len(start.steps()) <= most, f'{more}: {len(start.steps())} steps before it was told')


@case
def an_exception_reaches_all_with_its_rank_and_its_text(lab):
    lab.ends(2, '--fault', 'throw:1:2', says=['rank 1 ended: the third disk is full'])
    ended = r'\[rank 1\] \[fulgurite.distributed.rank_ended\] rank 0 ended: the third disk is full'
    lab.ends(2, '--fault', 'throw:0:2', says=[ended])
    for _ in range(3):  # rank 0 keeps the store, from which the other one learns why it ends
        port = free_port()
        both = [lab.launched(rank, 2, port, '--fault', 'throw:0:2') for rank in (0, 1)]
        need(both[0].wait().code == 1 and both[0].took < 10, f'it took {both[0].took:.1f} s')
        both[1].wait().said('rank 0 ended: the third disk is full')


@case
def a_program_that_ends_before_its_fit_is_named(lab):
    lab.ends(2, '--fault', 'start:1:0', says=['rank 1 ended: its program returned 9'])


@case
def a_rank_that_fails_after_the_last_exchange_is_no_success(lab):
    lab.ends(2, '--fault', 'late:1:0', says=['rank 1 ended: its program returned 7'])


@case
def a_rank_that_returns_between_two_fits_is_named(lab):
    for rank in 0, 1:
        returned = f'rank {rank} ended: its program returned 3'
        ended = f"rank {1 - rank} is at 'the second part', and the program of rank {rank} has ended with success"
        for status, says in (3, returned), (0, ended):
            words = '--then', '1', '--fault', f'leaves:{rank}:{status}'
            lab.ends(2, *words, says=[says], code=status if status and rank == 0 else 1)
            port = free_port()
            both = [lab.launched(one, 2, port, *words) for one in (0, 1)]
            both[1 - rank].wait().said(says)
            need(both[1 - rank].code == 1 and both[1 - rank].took < 10, f'it took {both[1 - rank].took:.1f} s')
            need(both[rank].wait().code == status, both[rank].code)


@case
def a_stopped_rank_is_named_when_time_is_up(lab):
    says = 'fulgurite.distributed.timeout', 'exchanging gradients', 'did not come: 1'
    lab.ends(2, '--timeout', '3000', '--fault', 'stop:1:2', says=says)
    port = free_port()
    both = [lab.launched(rank, 2, port, '--timeout', '3000', '--fault', 'stop:0:2') for rank in (0, 1)]
    both[1].wait().said('fulgurite.distributed.timeout', 'The store does not answer')
    both[0].process.kill()
    both[0].wait()


@case
def a_second_strategy_has_its_own_timeout_and_the_group_of_the_first(lab):
    start = lab.ends(2, '--second', '1', says=['fulgurite.distributed.timeout', 'has waited 1500 ms .while tea'])
    need(start.stderr.count('fulgurite.distributed.backend') == 4, start.stderr)


@case
def a_model_that_differs_is_refused_by_its_first_difference(lab):
    first = r"number 0 is 'first.weight Float \[8, 4\]' in rank 0 and 'first.weight Float \[9, 4\]' in rank 1"
    lab.ends(2, '--fault', 'model:1:0', says=['fulgurite.distributed.model', first])


@case
def ranks_that_are_at_different_places_are_told(lab):
    lab.ends(2, '--parts', '1', says=['fulgurite.distributed.parted', "rank 0 is at 'tea', rank 1 at 'coffee'"])


@case
def a_rank_that_a_launcher_started_is_missed(lab):
    port = free_port()
    both = [lab.launched(rank, 2, port, '--fault', 'forward:1:2') for rank in (0, 1)]
    both[0].wait().said('fulgurite.distributed.lost', 'of rank 1, which no longer answers',
                        'while exchanging gradients')
    need(both[0].code == 1 and both[1].wait().code == -signal.SIGKILL, both[0].code)


@case
def a_message_that_comes_as_a_wait_ends_is_no_error(lab):
    """A wait of 100 ms says that time is up, and before that was heard the message is there."""
    late = lab.own(2, '--engine', 'late').fine().alike()
    need(late.steps() == lab.own(2, '--engine', 'ordered').fine().steps(), 'other bits')
    lab.ends(2, '--engine', 'late', '--fault', 'collective:1:1', says=[KILLED])


@case
def a_port_that_is_taken_is_said(lab):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        start = lab.launched(0, 2, taken.getsockname()[1], '--timeout', '3000').wait()
        need(start.code == 1, start.code)
        start.said('fulgurite.distributed.port', 'Address already in use')


@case
def a_peer_that_never_comes_is_named(lab):
    start = lab.launched(0, 2, free_port(), '--timeout', '2000').wait()
    start.said('fulgurite.distributed.absent', 'within 2000 ms: 1')
    lonely = lab.launched(1, 2, free_port(), '--timeout', '2000').wait()
    lonely.said('fulgurite.distributed.store', 'rank 1 reached no store that answers')


def listens_at(port):
    """The addresses, of both families, as /proc/net has them: hexadecimal, in the order of bytes of this machine."""
    lines = [line.split() for name in ('tcp', 'tcp6') if os.path.exists(f'/proc/net/{name}')
             for line in pathlib.Path(f'/proc/net/{name}').read_text().splitlines()[1:]]
    return {words[1].split(':')[0] for words in lines if words[3] == '0A' and int(words[1].split(':')[1], 16) == port}


def connections_to(port):
    """How many there are, as the process that listens sees them."""
    lines = [line.split() for line in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:]]
    return sum(words[3] == '01' and int(words[1].split(':')[1], 16) == port for words in lines)


def until(holds, what):
    end = time.monotonic() + LIMIT
    while not holds():
        need(time.monotonic() < end, f'{what}: not within {LIMIT} s')
        time.sleep(0.02)


@case
def a_store_whose_process_is_stopped_before_all_have_met_ends_the_others_in_time(lab):
    for world, connections in (2, 1), (3, 4):  # before rank 1 connects, and while it waits for rank 2
        port = free_port()
        first = lab.launched(0, world, port)
        until(lambda: listens_at(port), 'rank 0 listens')
        other = lab.launched(1, world, port, '--timeout', '3000') if world == 3 else None
        until(lambda: connections_to(port) >= connections, 'connections')
        time.sleep(0.3)
        first.process.send_signal(signal.SIGSTOP)
        other = other or lab.launched(1, world, port, '--timeout', '3000')
        try:
            other.wait().said('fulgurite.distributed.store', 'is stopped')
            need(other.code == 1 and other.took < 15, f'{other.code} after {other.took:.1f} s')
        finally:
            first.process.kill()
            first.wait()


@case
def where_all_ranks_are_on_one_machine_the_store_listens_on_loopback(lab):
    for env, local in ({}, True), ({'LOCAL_WORLD_SIZE': '1', 'GROUP_WORLD_SIZE': '2'}, False):
        port = free_port()
        start = lab.launched(0, 2, port, '--timeout', '4000', env=env)
        while not (found := listens_at(port)) and start.process.poll() is None:
            time.sleep(0.02)
        start.wait().said('fulgurite.distributed.absent')
        loopback = {'0100007F', '0000000000000000FFFF00000100007F', '00000000000000000000000001000000'}
        need(found and (found <= loopback) == local, f'it listens at {found}')


@case
def an_environment_that_cannot_be_is_refused(lab):
    for env, says in (({'RANK': '0'}, 'WORLD_SIZE is not set'),
                      ({'RANK': '2', 'WORLD_SIZE': '2'}, "RANK is '2'"),
                      ({'RANK': 'x', 'WORLD_SIZE': '2'}, "RANK is 'x'"),
                      ({'OMPI_COMM_WORLD_RANK': '0', 'OMPI_COMM_WORLD_SIZE': '4', 'OMPI_COMM_WORLD_LOCAL_RANK': '0',
                        'OMPI_COMM_WORLD_LOCAL_SIZE': '2'}, 'MASTER_ADDR')):
        start = Start(lab.trainee, 1, lab.folder, [], env).wait()
        need(start.code == 1, start.code)
        start.said('fulgurite.distributed.environment', says)
    lab.launched(0, 2, 29999, '--devices', '3').wait().said('fulgurite.distributed.devices')
    lab.launched(0, 2, 29999, '--nodes', '2').wait().said('num_nodes = 2, and the launcher started 1')
    lab.launched(0, 300, 29999, '--bf16', '1').wait().said('fulgurite.distributed.too_many')
    lab.own(2, '--nodes', '2').wait().said('fulgurite.distributed.num_nodes')
    lab.own(-1).wait().said('fulgurite.distributed.options')


@case
@alone
def processes_that_cannot_be_started_are_said(lab):
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    start = Start(lab.trainee, 16, lab.folder, ['--devices', '16'], prepare=few).wait()
    start.said('fulgurite.distributed.start', 'Too many open files')


@case
def nccl_without_a_gpu_is_refused_before_anything_starts(lab):
    start = lab.own(2, '--engine', 'nccl').wait()
    if start.code == 0:  # there are two
        return
    need(start.code == 1, start.code)
    need(any(word in start.stderr for word in ('fulgurite.distributed.nccl_absent', 'fulgurite.distributed.gpus')),
         start.stderr)


@case
def nccl_with_one_rank_has_the_bits_of_one_gpu(lab):
    lab.gpus()
    for words in ((), ('--model', 'norm'), ('--accumulate', '2', '--clip', '1')):
        words = '--steps', '12', '--batch', '8', *words
        single = lab.single('--run', 'cuda-single', *words)
        start = lab.own(1, '--engine', 'nccl', '--saves', '1', *words).fine()
        need(start.steps() == single.steps(), f'{words}: other bits')
        captured = lab.own(1, '--engine', 'by_device', '--run', 'captured', '--saves', '1', *words).fine()
        need(captured.steps() == single.steps(), f'{words}, captured: other bits')
        need(re.search('steps replayed: [1-9]', captured.stdout), captured.stdout)
    for run in 'torch', 'pair', 'bf16', 'kept':
        lab.own(1, '--engine', 'nccl', '--run', run, '--keeps', str(lab.folder)).fine().alike()
    lab.own(1, '--engine', 'nccl', '--bf16', '1').fine().alike()
    launched = lab.launched(0, 1, free_port(), '--engine', 'nccl', '--steps', '12', '--batch', '8').fine()
    need(launched.steps() == lab.single('--run', 'cuda-single', '--steps', '12', '--batch', '8').steps(), 'other bits')


@case
def a_rank_on_a_gpu_that_fails_ends_in_time(lab):
    lab.gpus()
    lab.ends(1, '--engine', 'nccl', '--fault', 'throw:0:2', says=['the third disk is full'])
    lab.ends(1, '--engine', 'nccl', '--fault', 'throw:0:0', says=['the third disk is full'])
    lab.ends(1, '--engine', 'nccl', '--fault', 'forward:0:2', says=[], code=-signal.SIGKILL)


@case
def more_ranks_than_gpus_are_refused_before_anything_starts(lab):
    count = lab.gpus()
    for engine in 'nccl', 'by_device':
        start = lab.own(count + 1, '--engine', engine).wait()
        need(start.code == 1, start.code)
        start.said('fulgurite.distributed.gpus', f'there are {count} GPUs for {count + 1} processes')
        need('[rank 1]' not in start.stdout + start.stderr, 'another rank was started')


@case
def two_ranks_on_two_gpus_have_equal_bits(lab):
    lab.gpus(2)
    exact = '--model', 'exact', '--steps', '3'
    start = lab.own(2, '--engine', 'nccl', '--batch', '4', *exact).fine().alike()
    need(start.steps() == lab.single('--run', 'cuda-single', '--batch', '8', *exact).steps(), 'other bits than one GPU')
    for words in ('--run', 'captured', '--steps', '12'), ('--model', 'half'), ('--run', 'pair'), ('--model', 'norm'):
        lab.own(2, '--engine', 'nccl', *words).fine().alike()
    lab.ends(2, '--engine', 'nccl', '--fault', 'throw:1:2', says=['rank 1 ended: the third disk is full'])
    lab.ends(2, '--engine', 'nccl', '--fault', 'forward:1:2', says=[KILLED])


@case
def a_norm_of_all_ranks_is_that_of_one_process(lab):
    """In float64 to 1e-11, in float32 to 5e-4, with means of 100 and deviations of 3."""
    for world, engine in (2, 'gloo'), (4, 'gloo'), (4, 'ordered'):
        start = lab.own(world, '--engine', engine, '--run', 'norms').fine()
        found = re.findall(r'norm (\w+) (\w+) (\S+)', start.stdout)
        need(len(found) == 15 * world, start.stdout)
        for kind, name, far in found:
            need(float(far) < (1e-11 if kind == 'Double' else 5e-4), f'{world} ranks on {engine}: {kind} {name} {far}')


@case
def a_net_with_norms_of_all_ranks_takes_the_step_of_one_process(lab):
    words = '--model', 'sync', '--steps', '6'
    single = lab.single('--run', 'single', '--batch', '8', *words)
    plain = lab.single('--run', 'single', '--batch', '8', '--model', 'norm', '--steps', '6')
    need(single.steps() == plain.steps(), 'alone it has other bits than a batch norm of LibTorch')
    for world in 2, 4:
        start = lab.own(world, '--batch', str(8 // world), '--sync', '1', *words).fine().alike()
        far = apart(start.weights(), single.weights())
        need(far < 2e-5, f'{world} ranks: {far}')
        need('6 all-reduces of gradients' in start.stdout, start.stdout)


@case
def a_norm_that_cannot_be_synchronized_is_refused_by_name(lab):
    start = lab.own(2, '--model', 'norm', '--sync', '1').wait()
    need(start.code == 1, start.code)
    start.said('fulgurite.distributed.sync_batchnorm', "'norm' is a torch::nn::BatchNorm1d")
    start = lab.own(2, '--model', 'sync', '--run', 'captured').wait()
    need(start.code == 1, start.code)
    start.said('fulgurite.distributed.sync_captured')
    lab.own(1, '--model', 'sync', '--run', 'captured', '--steps', '12').fine()
    refused = lab.own(2, '--run', 'refusals').fine().stdout
    for name in ('fulgurite.distributed.sync_batchnorm_input', 'fulgurite.distributed.sync_batchnorm_twice',
                 'fulgurite.data.shared_tensor'):
        need(refused.count(name) == 2, refused)
    need(refused.count('norms known: 2') == 2, refused)
    own = r"fulgurite.distributed.sync_batchnorm\] .*'inner' is a .*OwnNorm, which sees its own"
    need(len(re.findall(own, refused)) == 2, refused)
    need(refused.count('most 7 of -3') == 2, refused)  # said by the last rank alone


@case
def a_rank_that_dies_beside_a_norm_ends_the_others(lab):
    for fault in 'forward:1:2', 'backward:1:1':
        lab.ends(2, '--model', 'sync', '--fault', fault, says=[KILLED])


@case
def data_that_ranks_share_are_once_in_memory(lab):
    whole = lab.own(2, '--run', 'kept', '--keeps', f'{lab.folder}/own').fine().alike()
    words = '--run', 'kept', '--shares', '1', '--ballast', str(4 << 20)
    start = lab.own(2, '--keeps', f'{lab.folder}/shared', *words).fine().alike()
    need(start.steps() == whole.steps(), 'other bits than with data of its own')
    need(re.findall(r'made by (\d)', start.stdout) == ['0'], 'not one rank made them')
    seen = re.findall(r'shared (\d+) (\S+) (\d+) (\d+)', start.stdout)
    need(len(seen) == 2 and seen[0][0] == seen[1][0], f'two ranks map other memory: {seen}')
    for _, rights, resident, share in seen:
        need(rights == 'r--s', rights)
        need(16384 <= int(resident) <= 16384 + 64, f'{resident} kB for 16 MB')
        need(2 * int(share) <= int(resident) + 64, f'{share} kB of {resident} are its own: not shared by two')
    need(re.findall(r'handles (\d+)', start.stdout) == ['0', '0'], 'file handles are left')
    need(re.findall(r'writer (\d+)', start.stdout) == [str(int(signal.SIGSEGV))] * 2, 'they can be written to')


def holders_of_shared_data():
    found = []
    for maps in pathlib.Path('/proc').glob('[0-9]*/maps'):
        try:
            found += [maps.parent.name] if 'memfd:fulgurite-data' in maps.read_text() else []
        except OSError:
            continue
    return found


@case
@alone
def nothing_is_left_of_shared_data_where_ranks_are_killed(lab):
    words = '--run', 'kept', '--shares', '1', '--keeps', str(lab.folder)
    before = [name for name in os.listdir('/dev/shm') if 'fulgurite-data' in name]
    lab.ends(2, '--fault', 'forward:0:2', *words, says=[], code=-signal.SIGKILL)
    lab.ends(2, '--fault', 'forward:1:2', *words, says=[KILLED])
    lab.ends(2, '--fault', 'make', *words, says=['the images are gone', 'rank 0 ended: the images are gone'])
    need([name for name in os.listdir('/dev/shm') if 'fulgurite-data' in name] == before, 'a name is left in /dev/shm')
    need(not holders_of_shared_data(), f'processes still map it: {holders_of_shared_data()}')


@case
def ranks_of_a_launcher_share_data_too(lab):
    words = '--run', 'kept', '--shares', '1', '--keeps', str(lab.folder)
    port = free_port()
    both = [lab.launched(rank, 2, port, *words, env={'OMP_NUM_THREADS': '1'}) for rank in (0, 1)]
    seen = [re.findall(r'shared (\d+)', start.fine().stdout) for start in both]
    need(len(seen[0]) == 1 and seen[0] == seen[1], f'two ranks map other memory: {seen}')


@case
def a_loader_that_ranks_share_out_has_the_batches_of_one_process(lab):
    single = lab.own(1, '--run', 'kept', '--batch', '8', '--keeps', f'{lab.folder}/1').fine()
    for world in 2, 4:
        words = '--run', 'kept', '--batch', str(8 // world), '--keeps', f'{lab.folder}/{world}'
        start = lab.own(world, *words).fine().alike()
        far = apart(start.weights(), single.weights())
        need(len(start.steps()) == 16 and far < 1e-5, f'{world} ranks: {len(start.steps())} steps, {far}')


@case
def ranks_on_two_machines_have_the_bits_of_one(lab):
    """Each is the only one of its machine: the store listens on all interfaces, and gloo takes the one named."""
    port = free_port()
    env = {'LOCAL_WORLD_SIZE': '1', 'LOCAL_RANK': '0', 'GROUP_WORLD_SIZE': '2', 'OMP_NUM_THREADS': '1',
           'GLOO_SOCKET_IFNAME': 'lo'}
    both = [lab.launched(rank, 2, port, env=env | {'GROUP_RANK': str(rank)}) for rank in (0, 1)]
    bare = lab.own(2).fine().steps()
    for rank, start in enumerate(both):
        need(start.fine().steps(rank) == bare, f'rank {rank} has other bits')
    port = free_port()
    both = [lab.launched(rank, 2, port, '--fault', 'throw:1:2', env=env) for rank in (0, 1)]
    both[0].wait().said('rank 1 ended: the third disk is full')
    need(both[1].wait().code == 1, both[1].code)


@case
def a_network_that_is_cut_ends_all_ranks_in_time(lab):
    """In a network of its own, of which nothing but loopback is there."""
    alone = ['unshare', '-rn', 'sh', '-c', 'ip link set lo up && exec "$0" "$@"']
    try:
        tried = subprocess.run([*alone, 'ip', 'link', 'set', 'lo', 'down'], capture_output=True, timeout=LIMIT)
    except OSError as why:
        raise Skipped(f'unshare is not there: {why}')
    if tried.returncode != 0:
        raise Skipped(f'a network of its own is not allowed here: {tried.stderr.decode().strip()}')
    for engine, rank in ('gloo', 0), ('gloo', 1), ('ordered', 1):
        words = '--devices', '2', '--engine', engine, '--timeout', '3000', '--fault', f'cut:{rank}:2'
        start = lab.under(2, alone, *words).wait()
        need(start.code == 1 and start.took < 20, f'{engine}: {start.code} after {start.took:.1f} s: {start.stderr}')
        start.said('fulgurite.distributed.timeout', 'has waited 3000 ms .while exchanging gradients')


@case
def ranks_of_an_agent_that_has_the_store_have_the_bits_of_the_bare_program(lab):
    start = lab.under(2, (), '--agent', '2').fine().alike()
    need(start.steps() == lab.own(2).fine().steps(), 'other bits')
    failed = lab.under(2, (), '--agent', '2', '--fault', 'throw:1:2').wait()
    need(failed.code == 1, failed.code)
    failed.said('rank 1 ended: the third disk is full')


@case
def ranks_that_an_agent_starts_again_end_with_the_bits_of_an_unbroken_run(lab):
    whole = lab.own(2, '--run', 'kept', '--keeps', f'{lab.folder}/whole').fine().alike().steps()
    for fault in 'forward:1:5', 'forward:0:10', 'throw:0:7':
        words = '--run', 'kept', '--keeps', f'{lab.folder}/{fault}', '--from', 'last', '--once', '1', '--fault', fault
        again = lab.under(2, (), '--agent', '2', '--restarts', '1', *words).fine().alike().steps()
        need(0 < len(again) < 16, f'{fault}: it did not go on from a file: {len(again)} steps')
        need(again == whole[-len(again):], f'{fault}: other bits')


@case
def torchrun_and_the_bare_program_give_the_same_bits(lab):
    start = lab.torchrun(2).fine().alike()
    need(start.steps() == lab.own(2).fine().steps(), 'other bits')


@case
def torchrun_starts_again_and_ends_with_the_bits_of_an_unbroken_run(lab):
    whole = lab.own(2, '--run', 'kept', '--keeps', f'{lab.folder}/whole').fine().alike()
    for fault in 'forward:1:5', 'forward:0:10':
        words = '--run', 'kept', '--keeps', f'{lab.folder}/{fault}', '--from', 'last', '--once', '1', '--fault', fault
        again = lab.torchrun(2, *words, options=['--max-restarts', '1']).fine().alike().steps()
        need(0 < len(again) < 16, f'{fault}: it did not go on from a file: {len(again)} steps')
        need(again == whole.steps()[-len(again):], f'{fault}: other bits')


@case
def srun_and_the_bare_program_give_the_same_bits(lab):
    """srun.py stands in for SLURM's: it sets the variables that srun sets."""
    stand_in = [sys.executable, str(pathlib.Path(__file__).with_name('srun.py')), '--ntasks', '2']
    start = lab.under(2, stand_in, env={'OMP_NUM_THREADS': '1'}).fine().alike()
    need(start.steps() == lab.own(2).fine().steps(), 'other bits')
    failed = lab.under(2, stand_in, '--fault', 'throw:1:2', env={'OMP_NUM_THREADS': '1'}).wait()
    need(failed.code != 0, 'a rank failed, and srun did not')
    failed.said('the third disk is full')


@case
def slurm_and_mpi_are_understood(lab):
    for name in 'slurm', 'mpi':
        port = free_port()
        ranks = []
        for rank in 0, 1:
            env = {'MASTER_PORT': port, 'OMP_NUM_THREADS': 1}
            if name == 'slurm':
                env |= {'SLURM_STEP_ID': 0, 'SLURM_PROCID': rank, 'SLURM_LOCALID': rank, 'SLURM_NTASKS': 2,
                        'SLURM_NNODES': 1, 'SLURM_NODELIST': 'node[3-4]', 'SLURM_JOB_ID': 4711}
            else:
                env |= {'OMPI_COMM_WORLD_RANK': rank, 'OMPI_COMM_WORLD_SIZE': 2, 'OMPI_COMM_WORLD_LOCAL_RANK': rank,
                        'OMPI_COMM_WORLD_LOCAL_SIZE': 2}
            ranks.append(Start(lab.trainee, 2, lab.folder, [], {k: str(v) for k, v in env.items()}))
        steps = [start.fine().steps(rank) for rank, start in enumerate(ranks)]
        need(steps[0] == steps[1], f'{name}: other bits')


def judged(trainee, one):
    """Whether a case is content, its name, and what is said of it beside."""
    began, good = time.monotonic(), True
    name = one.__name__.replace('_', ' ')
    with tempfile.TemporaryDirectory() as folder:
        try:
            one(Lab(trainee, folder))
        except Skipped as why:
            return good, name, f'# SKIP {why}'
        except Failed as why:
            good = False
            print(f'{one.__name__}: {why}', file=sys.stderr, flush=True)
    return good, name, f'({time.monotonic() - began:.1f} s)'


def main(cases=CASES):
    parser = argparse.ArgumentParser()
    parser.add_argument('trainee')
    parser.add_argument('--only', default='')
    words = parser.parse_args()
    cases = [one for one in cases if re.search(words.only, one.__name__)]
    by_themselves = [one for one in cases if hasattr(one, 'alone')]
    together = [one for one in cases if one not in by_themselves]
    print(f'1..{len(cases)}')
    good = []

    def told(verdict):
        good.append(verdict[0])
        print('ok' if verdict[0] else 'not ok', len(good), '-', *verdict[1:], flush=True)

    for one in by_themselves:
        told(judged(words.trainee, one))
    # Most of the time ranks wait for each other, so that there is time for one case more than there are processors. Of
    # many processors each rank takes several.
    with concurrent.futures.ThreadPoolExecutor(min(1 + len(os.sched_getaffinity(0)), 4)) as pool:
        for verdict in pool.map(lambda one: judged(words.trainee, one), together):
            told(verdict)
    sys.exit(not all(good))


if __name__ == '__main__':
    main()
