#!/usr/bin/env python3
"""The lint's own tests: for each rule a piece that breaks it and one that does not. Standard library only."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rules import RULES
from source import bare

CPP = "daemon/x.cpp"

# rule, file, broken text, fine text
CASES = (
    ("arrows", "model/a.cpp", '#include "scheduler/choice.hpp"\n', '#include "model/id.hpp"\n'),
    ("arrows", "scheduler/a.cpp", '#include "db/store.hpp"\n', '#include "model/id.hpp"\n'),
    ("arrows", "simulator/a.cpp", '#include "providers/port.hpp"\n', '// #include "providers/port.hpp"\n'),
    ("arrows", "providers/vastai/a.cpp", '#include "providers/runpod/client.hpp"\n', '#include "providers/vastai/client.hpp"\n'),
    ("arrows", "daemon/a.cpp", '#include "agent/worker.hpp"\n', '#include "agent/bootstrap.hpp"\n'),
    ("arrows", "db/a.cpp", '#include "sqlite.hpp"\n', '#include "db/sqlite.hpp"\n'),
    ("header homes", "cli/a.cpp", "#include <sqlite3.h>\n", "#include <string>\n"),
    ("header homes", "scheduler/a.cpp", "#include <spdlog/spdlog.h>\n", "#include <vector>\n"),
    ("header homes", "model/a.hpp", "#include <nlohmann/json.hpp>\n", "#include <nlohmann/json_fwd.hpp>\n"),
    ("pure core", "scheduler/a.cpp", "auto t = std::chrono::system_clock::now();", "auto t = now;"),
    ("pure core", "daemon/orchestrator/a.cpp", "std::random_device d;", "Entropy d(seed);"),
    ("pure core", "daemon/orchestrator/a.cpp", "std::unordered_map<int, int> m;", "std::map<int, int> m;"),
    ("pure core", "model/a.cpp", 'auto h = std::getenv("HOME");', 'auto h = "std::getenv(x)"; // getenv("HOME")'),
    ("pure core", "scheduler/a.hpp", "#include <fstream>\n", "#include <map>\n"),
    ("co_await", CPP, "if (co_await f()) g();", "auto ok = co_await f();\nif (ok) g();"),
    ("co_await", CPP, "while (!co_await f()) {}", "while (more) { more = co_await f(); }"),
    ("co_await", CPP, "auto x = co_await f({.a = s});", "auto x = co_await f(std::move(options));"),
    ("co_await", CPP, "auto x = c ? co_await f() : s;", "co_return co_await f();"),
    ("co_await", CPP, "auto x = co_await f(c ? s : t);", "auto [a, b] = co_await f(x, y);"),
    ("co_await", CPP, "std::vector v{co_await f()};", "co_await f(g(x));"),
    ("co_await", CPP, "g(co_await f());", "std::string s = co_await f();"),
    ("co_await", CPP, "auto x = co_await f() + co_await g();", "auto x = co_await f();\nauto y = co_await g();"),
    ("co_await", CPP, "auto x = co_await run(pool, [s] { return s; });", "auto x = co_await run(pool, std::move(work));"),
    ("co_await", CPP, "try { f(); } catch (int) { co_await g(); }", "try { co_await f(); } catch (int) { g(); }"),
    ("co_await", CPP, "#define GET(x) co_await x\n", "#define GET(x) (x)\n// co_await\n"),
    ("co_await", CPP, "case 1: x = c ? co_await f() : y;", "case 1: x = co_await f();"),
    ("co_await", CPP, "else x = y || co_await f();", "if (a && b) x = co_await f();\nelse co_await g();"),
    ("money", "cli/a.cpp", "double price = 0;", "double cpus = 0;"),
    ("money", "scheduler/a.hpp", "std::optional<double> gpu_rate;", "std::optional<UsdPerHour> gpu_rate;"),
    ("SQL only in db", "cli/a.cpp", 'run("SELECT id FROM jobs");', 'say("select one from the list");'),
    ("shape", "cli/a.hpp", "// What.\nstruct A {};\n", "// What.\n#pragma once\nstruct A {};\n"),
    ("shape", "cli/a.hpp", "#pragma once\nstruct A {};\n", "// What.\n#pragma once\n"),
    ("shape", "cli/utils.cpp", "int a;\n", None),
    ("shape", "cli/a.cpp", "int a;\n" * 800, "int a;\n" * 600),
    ("shape", "docs/a.md", "TO" "DO: more\n", "to do: more\n"),
    ("shape", "docs/a.md", "see /wo" "rk/main\n", "see /workspace/main and network/work/x\n"),
    ("shape", "docs/a.md", "no end", "an end\n"),
    ("own header first", "db/sqlite.cpp", '#include <string>\n\n#include "db/sqlite.hpp"\n', '#include "db/sqlite.hpp"\n\n#include <string>\n'),
    ("catch all", CPP, "try { f(); } catch (...) { g(); }", "try { f(); } catch (...) { g(); throw; }"),
)


class Rules(unittest.TestCase):
    def found(self, rule, path, text):
        return list(RULES[rule](pathlib.PurePosixPath(path), text))

    def test_each_rule_finds_what_breaks_it_and_nothing_else(self):
        for rule, path, broken, fine in CASES:
            with self.subTest(rule=rule, broken=broken[:60]):
                self.assertTrue(self.found(rule, path, broken))
            if fine is None:
                continue
            with self.subTest(rule=rule, fine=fine[:60]):
                self.assertEqual(self.found(rule, path, fine), [])

    def test_every_rule_has_a_case(self):
        self.assertEqual({case[0] for case in CASES}, set(RULES))

    def test_comments_and_texts_are_blanked_and_lines_stay(self):
        code = 'a("x // y"); // co_await\n/* b\n c */ R"z(\n")z" d\n'
        self.assertEqual(bare(code), 'a(""); \n\n ""\n d\n')

    def test_digit_separators_are_not_texts(self):
        self.assertEqual(bare("f(1'000, 2'000); g('x');"), "f(1'000, 2'000); g(\"\");")


unittest.main()
