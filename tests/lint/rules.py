"""The rules. Each takes (path, text) of one file and yields (line, message); `RULES` names them for the report.

They read text, not syntax: a rule is worth having only where its pattern is so plain that a false alarm is rare. What a
compiler, a sanitizer or a test finds better is not here.
"""
import pathlib
import re

from source import CODE, bare, line_of, room_of

# ---- arrows: DESIGN section 4, docs/architecture.md ----

ARROWS = {
    "model": set(),
    "scheduler": {"model"},
    "db": {"model"},
    "providers": {"model"},
    "checkpoints": {"model"},
    "config": {"model"},
    "agent": {"model", "checkpoints"},
    "cli": {"model", "config"},
    "simulator": {"model"},
    "replay": {"model", "scheduler"},
    # The daemon serves the agent's start script, and nothing else of the agent.
    "daemon": {"model", "scheduler", "db", "providers", "checkpoints", "config"},
}
EXTRA_ARROWS = {("daemon", "agent/bootstrap.hpp")}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
ANY_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def arrows(path, text):
    room = room_of(path)
    if room is None or path.suffix not in CODE:
        return
    for found in INCLUDE.finditer(bare(text, keep_texts=True)):
        target = pathlib.PurePosixPath(found[1])
        to = room_of(target)
        line = line_of(text, found.start())
        if to is None:
            yield line, f'include "{target}" from the root, as "room/file"'
        elif to != room and to not in ARROWS[room] and (room, str(target)) not in EXTRA_ARROWS:
            yield line, f"{room} may not include {to}"
        elif room == "providers" and len(path.parts) == 3 and len(target.parts) == 3 and path.parts[1] != target.parts[1]:
            yield line, f"the provider {path.parts[1]} may not include the provider {target.parts[1]}"


# ---- heavy or foreign headers stay where they belong ----

HOMES = (
    (re.compile(r"^sqlite3\.h$"), ("db/", "tests/db/", "bench/")),
    (re.compile(r"^curl/"), ("providers/http", "cli/", "daemon/notify/", "tests/")),
    (re.compile(r"^spdlog/"), ("daemon/log", "tests/daemon/daemon_log")),
    (re.compile(r"^boost/(asio|beast)"), ("daemon/http/", "daemon/api/", "daemon/gateway/", "agent/", "simulator/http_server", "tests/", "bench/")),
)


def header_homes(path, text):
    if path.suffix not in CODE:
        return
    code = bare(text, keep_texts=True)
    for found in ANY_INCLUDE.finditer(code):
        for pattern, homes in HOMES:
            if pattern.search(found[1]) and not str(path).startswith(homes):
                yield line_of(code, found.start()), f"<{found[1]}> stays in {', '.join(homes)}"
        if path.suffix == ".hpp" and found[1] == "nlohmann/json.hpp" and room_of(path) in ("model", "scheduler"):
            yield line_of(code, found.start()), "no JSON library in the headers of this room"


# ---- R2: the pure core reads no clock, no randomness, no environment, and does no IO ----

CORE = ("model/", "scheduler/", "daemon/orchestrator")
IMPURE = re.compile(
    r"\b(?:system_clock|steady_clock|high_resolution_clock|file_clock)\s*::\s*now\b"
    r"|\b(?:clock_gettime|gettimeofday|localtime|localtime_r|mktime)\b|\bstd\s*::\s*time\s*\("
    r"|\bstd\s*::\s*(?:random_device|mt19937(?:_64)?|default_random_engine)\b|\bs?rand\s*\(|\b(?:getrandom|RAND_bytes)\b"
    r"|\b(?:getenv|setenv)\b|\bstd\s*::\s*(?:i|o)?fstream\b|\bstd\s*::\s*(?:cout|cerr|clog)\b|\bf?printf\s*\("
    r"|\bspdlog\b|\bstd\s*::\s*(?:thread|jthread|mutex|async)\b|\bsleep_(?:for|until)\b|\bsqlite3_\w+\s*\(")
IMPURE_INCLUDE = re.compile(r"^(?:fstream|filesystem|iostream|random|thread|mutex|unistd\.h|sys/.*|spdlog/.*|curl/.*|boost/asio.*)$")
UNORDERED = re.compile(r"\bstd\s*::\s*unordered_(?:map|set|multimap|multiset)\b")
# An invariant that breaks ends the process with a line on standard error; there is nobody to hand it to.
PURITY_EXCEPTIONS = {"model/result.cpp"}


def pure_core(path, text):
    name = str(path)
    if not name.startswith(CORE) or path.suffix not in CODE or name in PURITY_EXCEPTIONS:
        return
    code = bare(text)
    for found in IMPURE.finditer(code):
        yield line_of(code, found.start()), f"the core may not use {found[0].strip('( ')}"
    with_texts = bare(text, keep_texts=True)
    for found in ANY_INCLUDE.finditer(with_texts):
        if IMPURE_INCLUDE.match(found[1]):
            yield line_of(with_texts, found.start()), f"the core may not include <{found[1]}>"
    if not name.startswith("model/"):
        for found in UNORDERED.finditer(code):
            yield line_of(code, found.start()), "iteration order is part of the core's output: use an ordered container"


# ---- R1: co_await ----

AWAIT = re.compile(r"\bco_await\b")
PLAIN_AWAIT = re.compile(
    r"^(?:(?:co_return|return)\s+|\(void\)\s*|[\w:<>,&*\s\[\].>()-]*?[\w\]>)]\s*=\s*)?co_await\s+[^{}?]*$", re.DOTALL)
HEAD = re.compile(r"\b(?:if|while|switch|for)\s*(?:constexpr\s*)?\(")
LAMBDA = re.compile(r"[(,]\s*\[[^\]\[]*\]\s*(?:\(|\{|mutable)")


def _closing(code, opening):
    """The position after the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    want, have, depth = pairs[code[opening]], code[opening], 0
    for position in range(opening, len(code)):
        if code[position] == have:
            depth += 1
        elif code[position] == want:
            depth -= 1
            if depth == 0:
                return position + 1
    return len(code)


def _statement(code, position):
    """The statement around a position: from the last ; { } or label colon outside brackets to the next ; or { }."""
    start = max(code.rfind(mark, 0, position) for mark in ";{}")
    depth = 0
    end = position
    while end < len(code):
        mark = code[end]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif mark == ";" and depth <= 0:
            break
        end += 1
    return code[start + 1:end].strip(), code[end:end + 1]


def _after_heads(statement):
    """What an `if (…)`, `else`, `case …:` without braces stands before."""
    while True:
        if head := HEAD.match(statement):
            statement = statement[_closing(statement, head.end() - 1):].lstrip()
        elif word := re.match(r"(?:else\b|do\b|case\b[^:?]*:(?!:)|default\s*:)\s*", statement):
            statement = statement[word.end():]
        else:
            return statement


def coroutines(path, text):
    if path.suffix not in CODE or "co_await" not in text:
        return
    code = bare(text)
    in_heads = []
    for head in HEAD.finditer(code):
        opening = head.end() - 1
        in_heads.append((opening, _closing(code, opening)))
    in_catches = []
    for caught in re.finditer(r"\bcatch\s*\(", code):
        after = _closing(code, caught.end() - 1)
        block = code.find("{", after)
        if block >= 0:
            in_catches.append((block, _closing(code, block)))
    for macro in re.finditer(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*\bco_await\b", code, re.MULTILINE):
        yield line_of(code, macro.start()), "co_await hidden in a macro"
    for found in AWAIT.finditer(code):
        line = line_of(code, found.start())
        if any(start < found.start() < end for start, end in in_heads):
            yield line, "co_await in the head of if, while, switch or for: bind it first"
            continue
        if any(start < found.start() < end for start, end in in_catches):
            yield line, "co_await in a catch block"
        statement, ended_by = _statement(code, found.start())
        if ended_by == "}":
            yield line, "co_await inside braces that make a value: bind it first"
            continue
        if statement.count("co_await") > 1:
            yield line, "two co_await in one statement"
            continue
        # A lambda in the arguments is a temporary that must outlive the await: g++ gets its life time wrong.
        if LAMBDA.search(statement):
            yield line, "name the lambda before the co_await"
        elif not PLAIN_AWAIT.match(_after_heads(statement)):
            yield line, "a statement with co_await is: an optional name, the co_await, a call with plain arguments"


# ---- R3: money ----

MONEY_DOUBLE = re.compile(
    r"\b(?:double|float)\b(?:\s+|\s*[&*>]+\s*)\w*(?:price|usd|cost|dollar|micros|amount|balance|budget|spend|bid|"
    r"(?:gpu|disk|hour|hourly|all_in)_?rate)\w*", re.IGNORECASE)
# The simulator speaks the providers' JSON, where money is a number with decimals.
MONEY_EXCEPTIONS = ("simulator/", "tests/")


def money(path, text):
    if path.suffix not in CODE or str(path).startswith(MONEY_EXCEPTIONS):
        return
    code = bare(text)
    for found in MONEY_DOUBLE.finditer(code):
        yield line_of(code, found.start()), f"money is integer micro-dollars, not `{' '.join(found[0].split())}`"


# ---- SQL only in db ----

SQL = re.compile(r'"[^"\n]*\b(?:SELECT\s.+\sFROM|INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET|CREATE\s+TABLE)\b')


def sql_home(path, text):
    if path.suffix not in CODE or str(path).startswith(("db/", "tests/", "bench/")):
        return
    code = bare(text, keep_texts=True)
    for found in SQL.finditer(code):
        yield line_of(code, found.start()), "the only SQL in the tree is in db/"


# ---- shape ----

LINES_MAX = 700
TEXT = CODE | {".py", ".sh", ".md", ".txt", ".cmake", ".sql", ".yaml", ".yml", ".json", ".service", ".csv", ""}
LEFT_OVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!-)")
NAMELESS = re.compile(r"^(?:utils?|helpers?|common|manager|misc)$")
ELSEWHERE = re.compile(
    r"(?<![\w./-])/work/|/tmp/brief|\b(?:pypi\.org|registry\.npmjs\.org|npmjs\.com|crates\.io|rubygems\.org|"
    r"proxy\.golang\.org|deb\.debian\.org)\b")
ELSEWHERE_EXCEPTIONS = ("tests/lint/",)


def shape(path, text):
    if path.suffix not in TEXT or "corpus" in path.parts:
        return
    lines = text.split("\n")
    if path.suffix in CODE:
        if len(lines) > LINES_MAX:
            yield len(lines), f"{len(lines)} lines, more than {LINES_MAX}: look for the second idea"
        if NAMELESS.match(path.stem):
            yield 1, "a file is named for the noun inside it"
        if path.suffix == ".hpp":
            if "#pragma once" not in text:
                yield 1, "a header needs #pragma once"
            if not text.startswith("//"):
                yield 1, "a header opens with what it is for"
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                yield number, "a tab"
    if text and not text.endswith("\n"):
        yield len(lines), "no line end at the end of the file"
    for number, line in enumerate(lines, 1):
        if LEFT_OVER.search(line):
            yield number, f"left over: {LEFT_OVER.search(line)[0]}"
        if ELSEWHERE.search(line) and not str(path).startswith(ELSEWHERE_EXCEPTIONS):
            yield number, f"speaks of another place: {ELSEWHERE.search(line)[0]}"


# ---- headers compile alone: by their own .cpp, which includes them first, or by a translation unit made for them ----

def own_header_first(path, text):
    if path.suffix != ".cpp" or room_of(path) is None:
        return
    own = path.with_suffix(".hpp")
    first = ANY_INCLUDE.search(bare(text, keep_texts=True))
    includes_own = any(found[1] == str(own) for found in INCLUDE.finditer(text))
    if includes_own and first and first[1] != str(own):
        yield line_of(text, first.start()), f'the first include is its own header "{own}"'


# ---- catch (...) may not swallow ----

def swallowing(path, text):
    if path.suffix not in CODE or room_of(path) is None:
        return
    code = bare(text)
    for caught in re.finditer(r"\bcatch\s*\(\s*\.\.\.\s*\)\s*", code):
        block = code[caught.end():_closing(code, caught.end())] if code[caught.end():caught.end() + 1] == "{" else ""
        if not re.search(r"\bthrow\b|\babort\b|\bterminate\b|current_exception|_exit\b", block):
            yield line_of(code, caught.start()), "catch (...) without throwing on or aborting"


RULES = {
    "arrows": arrows,
    "header homes": header_homes,
    "pure core": pure_core,
    "co_await": coroutines,
    "money": money,
    "SQL only in db": sql_home,
    "shape": shape,
    "own header first": own_header_first,
    "catch all": swallowing,
}
