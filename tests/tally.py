"""Counts the named tests of the last `meson test` in a build folder.

    tally.py count BUILD               prints "PASSED FAILED"
    tally.py failures BUILD            prints a line for each test that failed, with the place in its source
    tally.py skipped BUILD             prints a line for each reason why tests were skipped, and how many
    tally.py runnable BUILD [SUITE...] prints the tests (of the suites) whose program was built
    tally.py targets BUILD [SUITE...]  prints the programs that the tests (of the suites) run or are given
    tally.py seconds BUILD SINCE       prints for each folder how long compiling and testing took since then (seconds
                                       since 1970): of the folder's compilations one after the other, then of its tests

A Catch2 program counts its test cases (from its XML report), a TAP program its lines, any other test itself.
A program that died before its report was complete counts what it had reported, and one failure for dying."""

import collections
import html
import json
import pathlib
import re
import sys

GOOD = ('OK', 'SKIP', 'EXPECTEDFAIL')


def catch(report: str) -> tuple[int, int]:
    results = re.findall(r'<OverallResult success="(\w+)" skips="(\d+)"', report)
    passed = sum(success == 'true' and skips == '0' for success, skips in results)
    skipped = sum(success == 'true' and skips != '0' for success, skips in results)
    return passed, report.count('<TestCase ') - passed - skipped


def tap(output: str) -> tuple[int, int]:
    lines = [line for line in output.splitlines() if re.match(r'(not )?ok\b', line) and '# SKIP' not in line]
    failed = sum(line.startswith('not') for line in lines)
    return len(lines) - failed, failed


def failed_cases(report: str) -> list[str]:
    """The cases of a Catch2 report that failed or were not finished, each with the place of its first failure."""
    lines = []
    for case in report.split('<TestCase ')[1:]:
        if '<OverallResult success="true"' in case:
            continue
        place = re.search(r'<(?:Expression|Failure|Exception|Fatal\w*)[^>]*filename="([^"]*)" line="(\d+)"', case)
        named = html.unescape(re.search(r'name="([^"]*)"', case)[1])
        lines.append(named + (f' ({pathlib.Path(place[1]).name}:{place[2]})' if place else ''))
    return lines


def tests(build: pathlib.Path, suites: list[str]) -> list[dict]:
    known = json.loads((build / 'meson-info' / 'intro-tests.json').read_text())
    return [test for test in known if not suites or {suite.split(':')[-1] for suite in test['suite']} & set(suites)]


def results(build: pathlib.Path) -> list[tuple[dict, str | None]]:
    """Each test of the last run, with its Catch2 report; None where it writes none, empty where it wrote none."""
    log = build / 'meson-logs' / 'testlog.json'
    found = []
    for line in log.read_text().splitlines() if log.exists() else []:
        test = json.loads(line)
        xml = [pathlib.Path(word.split('XML::out=')[1]) for word in test['command'] if word.startswith('XML::out=')]
        report = (xml[0].read_text(errors='replace') if xml[0].exists() else '') if xml else None
        found.append((test, report))
    return found


def failures(build: pathlib.Path) -> list[str]:
    lines = []
    for test, report in results(build):
        cases = failed_cases(report) if report else []
        if not report:
            cases = re.findall(r'^not ok\b[ \d-]*(.*)$', test.get('stdout') or '', re.MULTILINE)
        if test['result'] not in GOOD and not cases:
            cases = [f'it ended as {test["result"]}']
        lines += [f'{test["name"]}: {case}' for case in cases]
    return lines


def skipped(build: pathlib.Path) -> list[str]:
    lines = []
    for test, report in results(build):
        if report is None:
            reasons = re.findall(r'^(?:(?:not )?ok\b.*|1\.\.0 *)# SKIP *(.*)$', test.get('stdout') or '', re.MULTILINE)
            if test['result'] == 'SKIP' and not reasons:
                reasons = (test.get('stdout') or 'status 77').splitlines()[-1:]
        else:
            said = re.findall(r'<Skip\b[^>]*>(.*?)</Skip>', report, re.S)
            reasons = [html.unescape(' '.join(why.split())) for why in said]
        lines += [f'{test["name"]}: {many} skipped: {why}' for why, many in collections.Counter(reasons).items()]
    return lines


def count(build: pathlib.Path) -> tuple[int, int]:
    passed = failed = 0
    for test, report in results(build):
        good, bad = 0, 0
        if report:
            good, bad = catch(report)
        elif report is None:
            good, bad = tap(test.get('stdout') or '')
        if test['result'] not in GOOD and bad == 0:
            bad = 1
        if test['result'] == 'OK' and good + bad == 0:
            good = 1
        passed, failed = passed + good, failed + bad
    if passed + failed == 0:
        failed = 1  # nothing ran: that is no success
    return passed, failed


def seconds(build: pathlib.Path, since: float) -> str:
    """ninja notes of each output how long it took in milliseconds, and when it was made in nanoseconds."""
    taken: dict[str, list[float]] = {}
    log = build / '.ninja_log'
    for line in log.read_text().splitlines()[1:] if log.exists() else []:
        began, ended, made, output, _ = line.split('\t')
        if int(made) / 1e9 >= since:
            parts = pathlib.PurePath(output).parts
            folder = parts[1] if parts[0] == 'tests' and len(parts) > 2 else parts[0]
            taken.setdefault(folder, [0, 0])[0] += (int(ended) - int(began)) / 1000
    for test, _ in results(build):
        suite = re.search(r'([\w-]+) - ', test['name'] + ' - ')[1]  # "unit - fulgurite:cli"
        taken.setdefault(suite, [0, 0])[1] += test['duration']
    order = sorted(taken.items(), key=lambda item: -sum(item[1]))
    return ', '.join(f'{name} {made:.0f} + {ran:.0f}' for name, (made, ran) in order if made + ran >= 1)


def main() -> None:
    verb, build, suites = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    if verb == 'count':
        print(*count(build))
    elif verb == 'seconds':
        print(seconds(build, float(suites[0])))
    elif verb in ('failures', 'skipped'):
        print(''.join(f'{line}\n' for line in {'failures': failures, 'skipped': skipped}[verb](build)), end='')
    elif verb == 'runnable':
        print(*(test['name'] for test in tests(build, suites) if pathlib.Path(test['cmd'][0]).exists()))
    elif verb == 'targets':
        built = {
            pathlib.Path(name)
            for target in json.loads((build / 'meson-info' / 'intro-targets.json').read_text())
            for name in target['filename']
        }
        programs = dict.fromkeys(build / word for test in tests(build, suites) for word in test['cmd'])
        print(*(program.relative_to(build) for program in programs if program in built))


main()
