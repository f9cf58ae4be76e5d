"""What the trainer itself costs, counted: instructions a step, executed indirect calls, bytes of program text. Prints
TAP, a line a fact.

    cost.py PROGRAM...     the null programs (their names say what they are; meson.build makes them)
    cost.py where PROGRAM  prints which lines of the sources a step's instructions come from (build it with -Ddebug=true)

Every count is exact for a compiler: two runs of different length, their difference divided by the steps between
them."""

import functools
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SHORT, LONG = 1000, 3000  # steps; both are multiples of the logging cadence
# of a step (P1); g++ 12 needs 57, clang 19 needs 59, of which 5 see to it that the loss is finite
MOST_INSTRUCTIONS = 60
MOST_WITH_VALIDATION = 85  # of a step after which a loader might be validated, and is not
MOST_OF_A_SCALAR = 172  # of one logged value (P8, which asks for 50 ns: `null_logged time` prints them)
MOST_OF_A_MARK = 3
MOST_OF_AN_ACTION = 150  # that a SimpleProfiler measures, two looks at the clock among them (`null_profiled time`)
HOT = re.compile(r'fulgurite::loop::'
                 r'(TrainEpoch|each_batch|validation_due|report_step|automatic_step|'
                 r'gradients)<')


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'Bail out! {" ".join(command)} ended with status {done.returncode}: {done.stderr[-500:]}')
    return done.stdout + done.stderr


@functools.cache
def total(program: str, steps: int) -> tuple[int, int]:
    """Instructions and indirect branches of a whole run."""
    said = run(
        'valgrind', '--tool=callgrind', '--branch-sim=yes', '--callgrind-out-file=/dev/null', program, str(steps)
    )
    events = re.search(r'Events\s*: (.*)', said)[1].split()
    counts = dict(zip(events, map(int, re.search(r'Collected : (.*)', said)[1].split())))
    return counts['Ir'], counts['Bi']


def a_step(program: str) -> tuple[float, float]:
    long, short = total(program, LONG), total(program, SHORT)
    return (long[0] - short[0]) / (LONG - SHORT), (long[1] - short[1]) / (LONG - SHORT)


def text(program: str) -> int:
    return int(run('size', program).splitlines()[1].split()[0])


def functions(program: str):
    """Every function's name and its instructions."""
    name, body = '', []
    for line in run('objdump', '-d', '-C', '--no-show-raw-insn', program).splitlines():
        if opened := re.match(r'[0-9a-f]+ <(.*)>:$', line):
            yield name, body
            name, body = opened[1], []
        elif '\t' in line:
            body.append(line.split('\t', 1)[1].strip())
    yield name, body


class Tap:
    number = 0

    def fact(self, name: str, holds: bool, counted: str) -> None:
        self.number += 1
        print(f'{"ok" if holds else "not ok"} {self.number} - {name}: {counted}')

    def skip(self, what: str, tool: str) -> None:
        self.number += 1
        print(f'ok {self.number} - {what} # SKIP {tool} is not installed')


def instructions(tap: Tap, program: dict[str, str]) -> None:
    idle = {n: a_step(program[f'null_fit_idle_{n}'])[0] for n in (0, 1, 8, 64)}
    fit = idle[0]
    tap.fact(
        'a step of fit takes no more instructions with 1, 8 and 64 idle callbacks than with 0 (P1)',
        max(idle.values()) <= fit,  # fewer, where registers fall out so
        ' '.join(f'{n}: {count:.2f}' for n, count in idle.items()),
    )
    tap.fact(
        f'a step of fit takes at most {MOST_INSTRUCTIONS} instructions (P1)', fit <= MOST_INSTRUCTIONS, f'{fit:.2f}'
    )
    validated = a_step(program['null_fit_validated'])[0]
    tap.fact(
        f'with a validation loader at most {MOST_WITH_VALIDATION}',
        validated <= MOST_WITH_VALIDATION,
        f'{validated:.2f}',
    )
    # Where anything listens to the end of a batch, it is noted that the step is over, for files that are saved then.
    listening = {n: (a_step(program[f'null_fit_listening_{n}'])[0] - fit - MOST_OF_A_MARK) / (2 * n) for n in (1, 8)}
    tap.fact(
        'a callback with hooks for two events of a step takes at most 2 instructions for each (P1), and '
        f'{MOST_OF_A_MARK} once',
        max(listening.values()) <= 2,
        ', '.join(f'{count:.2f} each with {n}' for n, count in listening.items()),
    )
    scalar = a_step(program['null_logged'])[0] - fit
    tap.fact(
        f'a logged scalar takes at most {MOST_OF_A_SCALAR} instructions (P8)',
        scalar <= MOST_OF_A_SCALAR,
        f'{scalar:.2f}',
    )
    actions = int(run(program['null_profiled'], 'actions'))
    action = (a_step(program['null_profiled'])[0] - fit) / actions
    tap.fact(
        f'an action that SimpleProfiler measures takes at most {MOST_OF_AN_ACTION} instructions',
        actions > 8 and action <= MOST_OF_AN_ACTION,
        f'{action:.1f}, {actions} actions a step',
    )
    hand, hand_validated = a_step(program['null_hand'])[0], a_step(program['null_hand_validated'])[0]
    tap.fact(
        'the hand loop is measured beside it',
        hand > 10,
        f'hand {hand:.2f}, with validation {hand_validated:.2f}; fit {fit:.2f}, with validation {validated:.2f}',
    )
    twins = {n: a_step(program[f'null_twin_idle_{n}'])[0] for n in (0, 1, 8, 64)}
    tap.fact(
        'the dynamic twin takes more, with any number of callbacks',
        all(twins[n] > idle[n] for n in twins),
        ' '.join(f'{n}: {count:.2f}' for n, count in twins.items()) + f'; {(twins[64] - twins[8]) / 56:.1f} a callback',
    )


def calls(tap: Tap, program: dict[str, str]) -> None:
    for name in ('null_fit_idle_0', 'null_fit_idle_64', 'null_fit_listening_8', 'null_fit_validated', 'null_logged'):
        executed = a_step(program[name])[1]
        tap.fact(f'a step of {name} executes no indirect call or jump', executed == 0, f'{executed:.2f}')
    seen = a_step(program['null_twin_listening_8'])[1]
    tap.fact("the same count sees the twin's virtual calls", seen >= 16, f'{seen:.2f}')


def assembly(tap: Tap, program: dict[str, str]) -> None:
    clock = int(run(program['null_fit_idle_0'], 'clock'))
    through_clock = re.compile(rf'call\s+\*0x{clock:x}\(%r\w+\)')
    for name in ('null_fit_idle_0', 'null_fit_listening_8', 'null_fit_validated', 'null_logged'):
        hot = {function: body for function, body in functions(program[name]) if HOT.search(function)}
        indirect = [f'{line} in {function[:120]}' for function, body in hot.items() for line in body
                    if re.search(r'\b(call|jmp)\w*\s+\*', line) and not through_clock.match(line)]
        size = sum(map(len, hot.values()))
        tap.fact(
            f"the hot loop of {name} has no indirect call but the user's clock in its assembly",
            size > 50 and not indirect,
            '; '.join(indirect[:4]) or f'{size} instructions in {len(hot)} functions',
        )


def texts(tap: Tap, program: dict[str, str]) -> None:
    for kind, many in (('idle', 64), ('listening', 8)):
        none = 0 if kind == 'idle' else 1
        ours, twins = (
            (text(program[f'null_{which}_{kind}_{many}']) - text(program[f'null_{which}_{kind}_{none}']))
            / (many - none)
            for which in ('fit', 'twin')
        )
        tap.fact(
            f"the text of one {kind} callback is below that of the twin's (P11)",
            ours < twins,
            f'{ours:.0f} and {twins:.0f} bytes',
        )


def where(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines: dict[str, list[int]] = {}
        for run_number, steps in enumerate((SHORT, LONG)):
            out = pathlib.Path(folder, str(steps))
            run('valgrind', '--tool=callgrind', '--dump-instr=no', f'--callgrind-out-file={out}', program, str(steps))
            file, names, inclusive = '', {}, False
            for line in out.read_text().splitlines():
                if opened := re.match(r'(fl|fi|fe)=\((\d+)\)(?: (.*))?', line):
                    if opened[3]:
                        names[opened[2]] = opened[3]
                    file = names[opened[2]]
                elif opened := re.match(r'cfi=\((\d+)\) (.*)', line):
                    names[opened[1]] = opened[2]
                elif line.startswith('calls='):
                    inclusive = True
                elif opened := re.match(r'([+-]?\d+|\*) (\d+)$', line):
                    at = line_number(opened[1], locals().get('at', 0))
                    if not inclusive:
                        lines.setdefault(f'{file}:{at}', [0, 0])[run_number] += int(opened[2])
                    inclusive = False
        counts = sorted((((b - a) / (LONG - SHORT), line) for line, (a, b) in lines.items() if b > a), reverse=True)
        for count, line in counts:
            if count >= 0.1:
                print(f'{count:8.2f}  {line}')
        print(f'{sum(count for count, _ in counts):8.2f}  in all')


def line_number(written: str, before: int) -> int:
    if written == '*':
        return before
    return before + int(written) if written[0] in '+-' else int(written)


def main() -> None:
    if sys.argv[1:2] == ['where']:
        return where(sys.argv[2])
    program = {pathlib.Path(path).name: path for path in sys.argv[1:]}
    tap = Tap()
    for check, tool in ((instructions, 'valgrind'), (calls, 'valgrind'), (assembly, 'objdump'), (texts, 'size')):
        if shutil.which(tool):
            check(tap, program)
        else:
            tap.skip(check.__name__, tool)
    print(f'1..{tap.number}')


main()
