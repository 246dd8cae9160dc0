// Holds the format against second_implementation.py, which was written from docs/checkpoint-format.md and
// shares no code: what one writes the other must read, byte for byte.
#include <cstdio>
#include <cstdlib>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;

namespace {

/// Runs the script; its one line of output, or "failed".
std::string script(const std::string& arguments) {
    const std::string command = "python3 '" GF_SECOND_IMPLEMENTATION "' " + arguments;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string out;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
    if (::pclose(pipe) != 0) return "failed";
    while (out.ends_with('\n')) out.pop_back();
    return out;
}

}  // namespace

TEST_CASE("what the second implementation writes is read here, and the other way round") {
    for (std::uint64_t seed = 61; seed < 64; ++seed) {
        CAPTURE(seed);
        Entropy entropy{seed};
        const TempFolder work;
        make_random_tree(work / "tree", entropy);
        auto store = FileStore::open(work / "store");
        REQUIRE(store);
        const std::string theirs =
            script("write '" + (work / "tree").string() + "' '" + (work / "store").string() + "' " +
                   kJob.get() + " " + kTask.get() + " 1");
        const auto digest = Digest::from_hex(theirs);
        REQUIRE(digest);
        const auto manifest = verify_generation(**store, kJob, *digest);
        if (!manifest) FAIL(manifest.error().message);
        StoreSource source{**store, kJob};
        REQUIRE(restore(*manifest, source, work / "back"));
        CHECK(tree_text(work / "back") == tree_text(work / "tree"));

        StoreSink sink{**store, 1};
        const Snapshot ours = take_and_send(request_for(work / "tree", work / "spool"), sink);
        REQUIRE((*store)->put_manifest(kJob, kTask, 1, ours.encoded));
        const std::string said =
            script("check '" + (work / "store").string() + "' " + kJob.get() + " " + ours.digest.hex());
        CHECK(said.starts_with("files " + std::to_string(ours.manifest.files.size()) + " bytes " +
                               std::to_string(total_bytes(ours.manifest)) + " "));
        CHECK(ours.manifest.files == manifest->files);
        CHECK(ours.manifest.directories == manifest->directories);
        CHECK(ours.manifest.symlinks == manifest->symlinks);
    }
}
