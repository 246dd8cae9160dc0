// What is remembered of hosts, and sealed secrets: rows that are put, put again and dropped by their key.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

HostMarkRecord mark(Samples& s, const std::string& key) {
    Entropy& e = s.entropy();
    HostMarkRecord row{.key = key, .at = instant_of(static_cast<std::int64_t>(e.below(1ULL << 42)))};
    for (auto* count : {&row.boot_failures, &row.slow_pulls, &row.early_losses, &row.good_runs})
        *count = static_cast<std::int64_t>(e.below(1ULL << 40));
    row.last = random_text(e);
    return row;
}

SecretRecord secret(Samples& s, const std::string& name) {
    Entropy& e = s.entropy();
    SecretRecord row{.name = name, .sealed = random_text(e), .principal = random_text(e), .created_at = {}, .updated_at = {}};
    row.created_at = instant_of(static_cast<std::int64_t>(e.below(1ULL << 42)));
    row.updated_at = row.created_at + Seconds{static_cast<std::int64_t>(e.below(1'000'000))};
    return row;
}

}  // namespace

TEST_CASE("host marks come back as they were put, also from a file that was closed, and are part of the live rows") {
    const TempFolder folder;
    Samples s(11);
    std::vector<HostMarkRecord> put;
    {
        auto store = open(folder.file("store.db"));
        for (int i = 0; i < 40; ++i) {
            put.push_back(mark(s, "vastai/host/" + std::to_string(i) + random_text(s.entropy())));
            commit(*store, {PutHostMark{put.back()}});
        }
        // Put again: the key stays, the rest is new.
        for (std::size_t i = 0; i < put.size(); i += 3) {
            put[i] = mark(s, put[i].key);
            commit(*store, {PutHostMark{put[i]}});
        }
        // Dropped, and dropped although it is not there.
        commit(*store, {DropHostMark{put.back().key}, DropHostMark{"nothing"}});
        put.pop_back();
    }
    auto store = open(folder.file("store.db"));
    std::ranges::sort(put, {}, &HostMarkRecord::key);
    CHECK(*store->reader().host_marks() == put);
    CHECK(store->load_live()->host_marks == put);
}

TEST_CASE("a batch may put a mark, drop it and put it again") {
    Samples s(12);
    auto store = open();
    const HostMarkRecord first = mark(s, "k"), last = mark(s, "k");
    commit(*store, {PutHostMark{first}, DropHostMark{"k"}, PutHostMark{last}});
    CHECK(*store->reader().host_marks() == std::vector{last});
    commit(*store, {PutHostMark{first}, DropHostMark{"k"}});
    CHECK(store->reader().host_marks()->empty());
}

TEST_CASE("sealed secrets come back by name; who put one first, and when, survives a new value") {
    const TempFolder folder;
    Samples s(13);
    SecretRecord a = secret(s, "A"), b = secret(s, "B_2");
    {
        auto store = open(folder.file("store.db"));
        commit(*store, {PutSecret{b}, PutSecret{a}});
        SecretRecord again = secret(s, "A");
        commit(*store, {PutSecret{again}});
        a.sealed = again.sealed;
        a.principal = again.principal;
        a.updated_at = again.updated_at;
    }
    auto store = open(folder.file("store.db"));
    CHECK(*store->reader().secrets() == std::vector{a, b});
    CHECK(**store->reader().secret("A") == a);
    CHECK(!store->reader().secret("a")->has_value());  // names are exact
    commit(*store, {DropSecret{"A"}, DropSecret{"nothing"}});
    CHECK(*store->reader().secrets() == std::vector{b});
    CHECK(!store->reader().secret("A")->has_value());
}
