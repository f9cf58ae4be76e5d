"""What depends on no template parameter stands in a body file, and units of both flavours do not link: `bodies.py
BUILD` prints TAP; `bodies.py list` names the bodies that stand in headers.

x.hpp declares; x.ipp beside it defines (core/body.hpp). A body of more than MOST tokens may stay in a header if it is
constexpr, deduces what it returns, is always inlined, is a friend defined in its class, or is of the loop over batches:
those are named below, with the reason."""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

MOST = 12
# Qualified names, or beginnings of them that end in ::, and why they stay.
STAY = {
    'crc::eight': 'is there once for each kind of processor',
    'loop::window_of': 'each step of an epoch of windows asks it',
    'loop::minima_met': 'is asked after each batch',
    'loop::steps_exhausted': 'is asked after each batch',
    'loop::epochs_exhausted': 'is asked after each batch',
    'loop::stops': 'is asked after each batch',
    'loop::done': 'is asked after each batch',
    'loop::time_is_up': 'is asked after each batch',
    'loop::validation_time_is_up': 'is asked after each batch',
    'loop::seconds_now': 'is asked after each batch',
    'MatmulScope::': 'stands around each step',
    'Context::': 'steps and hooks of batches ask it',
    'distributed::nccl_engine': 'is there once with NCCL and once without',
    'libtorch::graph::': 'is there with the headers of the CUDA toolkit only',
    'judge::FULGURITE_OF_ENTRIES': 'is a macro, which makes templates',
}
BODY = 'fulgurite/core/body.hpp'
ONE = f'#include <{BODY}>\nint other();\nint main() {{ return other(); }}\n'
TWO = f'#include <{BODY}>\nint other();\nint other() {{ return 0; }}\n'
NAME = 'fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none'
# Which library has a body file: that of LibTorch, where the file or its header includes LibTorch.
LISTS = {'fulgurite/bodies_bare.hpp': lambda body: flags.part(body) != 'cli' and not needs_torch(body),
         'fulgurite/bodies_torch.hpp': lambda body: needs_torch(body),
         'fulgurite/bodies_cli.hpp': lambda body: flags.part(body) == 'cli'}
TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d[\w.']*|<<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|<<|>>|>=|<=|==|!=|&&|\|\||"
                   r'[-+*/%&|^]=|\S')
STAYS = re.compile(r'\b(constexpr|consteval|friend|always_inline|gnu :: target|FULGURITE_CRC_TARGET)\b')


def needs_torch(body: pathlib.Path) -> bool:
    return any(name.startswith(('torch/', 'ATen/', 'c10/')) for name in flags.reached(body))


def code(header: pathlib.Path) -> str:
    """The header without comments and preprocessor lines, and with 0 for what stands in quotes."""
    pattern = (r'(?P<quoted>R"(?P<end>\w*)\((?s:.*?)\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'
               r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')|//[^\n]*|^[ \t]*#(?:\\\n|[^\n])*")

    def blank(found):
        spaces = re.sub(r'[^\n]', ' ', found[0])
        return '0' + spaces[1:] if found['quoted'] else spaces

    return re.sub(pattern, blank, header.read_text(), flags=re.M)


def closing(tokens: list[str], at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] in ('(', '[', '{')) - (tokens[i] in (')', ']', '}'))
        if depth == 0:
            return i + 1
    raise ValueError


def behind_angles(tokens: list[str], at: int) -> int:
    depth, i = 0, at
    while i < len(tokens):
        if tokens[i] in ('(', '[', '{'):
            i = closing(tokens, i)
            continue
        depth += tokens[i].count('<') * (tokens[i] in ('<', '<<')) - tokens[i].count('>') * (tokens[i] in ('>', '>>'))
        i += 1
        if depth <= 0:
            break
    return i


def outside_brackets(head: list[str]) -> list[tuple[int, str]]:
    found, i = [], 0
    while i < len(head):
        found.append((i, head[i]))
        i = closing(head, i) if head[i] in ('(', '[', '{') else i + 1
    return found


def names_function(words: list[str]) -> bool:
    """Whether what stands before a bracket names a function, not a variable that is given a value."""
    return '=' not in words or words[-2:] == ['operator', '=']


def without_access(head: list[str]) -> list[str]:
    while len(head) > 1 and head[0] in ('public', 'private', 'protected') and head[1] == ':':
        head = head[2:]
    return head


def bodies(tokens: list[str], at: int, scope: str, template: bool):
    """(qualified name, tokens) of each body from `at` to the end of this scope that should not be in a header."""
    head: list[str] = []
    while at < len(tokens):
        token = tokens[at]
        if token == '}':
            return at + 1
        if token == ';':
            head, at = [], at + 1
            continue
        if token in ('(', '['):
            end = closing(tokens, at)
            head += tokens[at:end]
            at = end
            continue
        if token != '{':
            head.append(token)
            at += 1
            continue
        head = without_access(head)
        plain, depends, specializes = head, False, False
        while plain[:2] == ['template', '<'] or plain[:1] == ['requires']:
            if plain[0] == 'requires':
                break
            end = behind_angles(plain, 1)
            depends, specializes = depends or end > 3, specializes or end == 3
            plain = plain[end:]
        outer = outside_brackets(plain)
        words = [word for _, word in outer]
        if words[:1] == ['namespace'] or words[:2] == ['inline', 'namespace']:
            name = ''.join(plain[plain.index('namespace') + 1:])
            at = yield from bodies(tokens, at + 1, scope + name + '::', template)
            head = []
        elif words[:1] in (['class'], ['struct'], ['union']) or words[:2] == ['extern', '0']:
            name = next((word for word in words[1:] if re.match(r'[A-Za-z_]', word) and word != 'alignas'), '')
            at = yield from bodies(tokens, at + 1, scope + name + '::', template or depends or specializes)
            head = []
        elif '(' in words and names_function(words[:words.index('(')]) and not {'enum', 'concept'} & {*words}:
            first = words.index('(')
            if 'operator' in words[:first] and words[first + 1:first + 2] == ['(']:
                first += 1
            colon = ':' in words[first:]
            if colon and re.match(r'[A-Za-z_]|>', words[-1]) and words[-1] not in ('try', 'noexcept', 'const'):
                end = closing(tokens, at)  # a member that braces initialize
                head += tokens[at:end]
                at = end
                continue
            end = closing(tokens, at)
            count = end - at
            if colon:
                count += len(plain) - outer[first + words[first:].index(':')][0] - 1
            given = plain[outer[first][0]:closing(plain, outer[first][0])]
            before = plain[:outer[first][0]]
            deduced = 'auto' in before and '->' not in words[first:]
            generic = template or depends or deduced or 'auto' in given or 'requires' in words
            if not (generic or STAYS.search(' '.join(plain))):
                name = ''.join(before[-2:] if before[-2:-1] in (['~'], ['operator']) else before[-1:])
                if before[-2:-1] == ['::']:
                    name = ''.join(before[-3:])
                yield scope + name, count
            head, at = [], end
        else:
            end = closing(tokens, at)
            head += tokens[at:end]
            at = end
            if 'enum' in words or 'concept' in words:
                head = []
    return at


def in_headers() -> list[tuple[str, str, int]]:
    found = []
    for header in flags.headers():
        for name, count in bodies(TOKEN.findall(code(header)), 0, '', False):
            if count > MOST:
                found.append((header.relative_to(flags.INCLUDE).as_posix(), name.removeprefix('fulgurite::'), count))
    return found


def stays(name: str) -> bool:
    return any(name.startswith(one) if one.endswith('::') else name == one for one in STAY)


def links(how, *flavours: bool) -> tuple[bool, str]:
    words, _ = how
    with tempfile.TemporaryDirectory() as scratch:
        objects = []
        for number, (text, compiled) in enumerate(zip((ONE, TWO), flavours)):
            source = pathlib.Path(scratch) / f'{number}.cpp'
            source.write_text(text)
            objects.append(str(source.with_suffix('.o')))
            flavour = ['-DFULGURITE_COMPILED'] if compiled else []
            include = ['-std=c++20', f'-I{flags.INCLUDE}']
            subprocess.run([words[0], *include, *flavour, '-c', str(source), '-o', objects[-1]], check=True)
        run = subprocess.run([words[0], *objects, '-o', f'{scratch}/program'], capture_output=True, text=True)
        return run.returncode == 0, run.stderr


def wiring():
    """x.ipp begins with x.hpp, which ends with it, and each list has its body files."""
    files = flags.body_files()
    for body in files:
        name = body.relative_to(flags.INCLUDE).as_posix()
        header = body.with_suffix('.hpp')
        if not header.is_file():
            yield f'{name}: there is no header of that name'
            continue
        own = header.relative_to(flags.INCLUDE).as_posix()
        if own not in flags.includes(body):
            yield f'{name} does not include {own}'
        if not header.read_text().endswith(f'\n#if !defined(FULGURITE_COMPILED)\n#include <{name}>\n#endif\n'):
            yield f'{own} does not end with {name}, which a header-only program needs'
        if BODY not in flags.includes(header):
            yield f'{own} does not include {BODY}'
    for one, of in LISTS.items():
        there = [name for name in flags.includes(flags.INCLUDE / one) if name.endswith('.ipp')]
        should = [body.relative_to(flags.INCLUDE).as_posix() for body in files if of(body)]
        for name in sorted({*there} ^ {*should}):
            yield f'{one} {"lacks" if name in should else "has no reason to include"} {name}'


def main() -> None:
    found = in_headers()
    if sys.argv[1:] == ['list']:
        for where, name, count in found:
            print(where, name, count)
        return
    how = flags.command(pathlib.Path(*flags.arguments('BUILD')), 'bare_one.cpp')
    names = {name for _, name, _ in found}
    results = [
        (f'a body of more than {MOST} tokens that depends on no template parameter stands in a body file',
         [f'{where}: {name} has {count} tokens: it belongs in the .ipp beside it' for where, name, count in found
          if not stays(name)]),
        ('every exception is one', [f'{one}: there is no such body in a header' for one in STAY
                                    if not any(name.startswith(one) for name in names)]),
        ('every body file is included by its header and by the list of its library', list(wiring())),
    ]
    for flavours in ((False, False), (True, True), (False, True), (True, False)):
        good, said = links(how, *flavours)
        if flavours[0] == flavours[1]:
            which = 'compiled' if flavours[0] else 'header-only'
            results.append((f'two units link, both {which}', [] if good else [said]))
        else:
            kinds = ['a compiled unit' if compiled else 'a header-only one' for compiled in flavours]
            order = ' before '.join(kinds)
            results.append((f'{order} is refused by name', [] if not good and NAME in said else [said or 'it links']))
    flags.tap(results)


main()
