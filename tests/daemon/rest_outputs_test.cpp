// Published outputs: the list and the bytes, put together from packs.
#include <doctest/doctest.h>

#include <fstream>

#include "checkpoints/snapshot.hpp"
#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

namespace cp = checkpoints;

struct OutputBench : RestBench {
    std::string job{submit()};
    TaskId task;
    cp::Snapshot taken;

    OutputBench() {
        task = store->reader().tasks(JobId{job}).value().at(0).id;
        write_file(folder / "work/out/small.txt", "hello\n");
        write_file(folder / "work/out/empty", "");
        write_file(folder / "work/out/name with spaces & %41.bin", "odd");
        std::string large(10 << 20, 'l');  // several chunks
        for (std::size_t i = 0; i < large.size(); i += 4099) large[i] = static_cast<char>(i);
        write_file(folder / "work/out/deep/large.bin", large);
        cp::SnapshotRequest request;
        request.root = folder / "work";
        request.only = {"out"};
        request.spool = folder / "spool";
        request.kind = cp::ManifestKind::output;
        request.job = job;
        request.task = task.get();
        request.attempt = 1;
        request.now = core->now();
        request.wait = [](Millis) { return true; };
        taken = cp::take_snapshot(request).value();
        for (const auto& pack : taken.packs) {
            const auto writer = packs->begin_pack(JobId{job}, 1, pack.id).value();
            REQUIRE(writer->append(read_file(pack.file.string())));
            REQUIRE(writer->commit());
        }
        REQUIRE(packs->put_manifest(JobId{job}, task, 1, taken.encoded));
        core->commit({PutOutput{{.job = JobId{job}, .task = task, .attempt = 1, .size = {}, .files = 4,
                                 .manifest_sha256 = taken.digest.hex(), .published_at = core->now()}}});
    }
};

TEST_CASE("every published file is listed with its hash and comes whole from its url") {
    OutputBench b;
    const auto list = parsed(b.get("/v1/jobs/" + b.job + "/outputs"));
    REQUIRE(list.at("items").size() == 4);
    for (const auto& item : list.at("items")) {
        const std::string path = item.at("path");
        CAPTURE(path);
        const auto got = b.get(item.at("url"));
        CHECK(got.status == 200);
        CHECK(got.error.empty());
        CHECK(got.body == read_file(b.folder / ("work/" + path)));
        CHECK(got.body.size() == item.at("bytes").get<std::size_t>());
        CHECK(cp::sha256(got.body).hex() == item.at("sha256").get<std::string>());
        CHECK(got.headers.at("content-length") == std::to_string(got.body.size()));
    }
    CHECK(b.get("/v1/jobs/" + b.job + "/outputs/files/out/none").status == 404);
    CHECK(b.get("/v1/jobs/" + b.job + "/outputs/files/out/small.txt?task=tsk_" + std::string(26, '0')).status == 404);
    const auto page = parsed(b.get("/v1/jobs/" + b.job + "/outputs?limit=3"));
    CHECK(page.at("items").size() == 3);
    const auto rest = parsed(b.get("/v1/jobs/" + b.job + "/outputs?limit=3&cursor=" + page.at("next_cursor").get<std::string>()));
    CHECK(rest.at("items").size() == 1);
    CHECK(rest.at("next_cursor").is_null());
}

TEST_CASE("a rotten pack is never served as a whole file") {
    OutputBench b;
    for (const auto& pack : b.taken.packs) {
        const auto path = b.folder / ("checkpoints/" + b.job + "/a1/" + pack.id.hex() + ".pack");
        auto bytes = read_file(path);
        for (std::size_t i = 30; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(bytes[i] ^ 1);
        std::ofstream(path, std::ios::binary) << bytes;
    }
    const auto got = b.get("/v1/jobs/" + b.job + "/outputs/files/out/deep/large.bin");
    CHECK_FALSE(got.error.empty());  // cut off: fewer bytes than Content-Length said
}

TEST_CASE("a job without outputs has an empty list") {
    RestBench b;
    const auto job = b.submit();
    const auto got = b.get("/v1/jobs/" + job + "/outputs");
    CHECK(got.status == 200);
    CHECK(parsed(got).at("items").empty());
}

}  // namespace
}  // namespace gf::test
