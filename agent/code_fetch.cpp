#include "agent/code_fetch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tar_reader.hpp"
#include "checkpoints/digest.hpp"

namespace gf::agent {
namespace {

constexpr int kWholeTries = 5;  // downloads whose bytes were not those of the name

Result<void> fetch(BulkClient& bulk, const std::string& sha256, const std::string& file, const std::function<bool()>& stopped) {
    RetryPause pause;
    while (true) {
        Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!out) return fail(system_error("create", file));
        struct stat st{};
        if (::fstat(out.get(), &st) != 0) return fail(system_error("stat", file));
        std::int64_t at = st.st_size;
        Error disk;
        bool disk_failed = false;
        HttpRequest request{.target = "/agent/blob/" + sha256};
        if (at > 0) request.headers["Range"] = "bytes=" + std::to_string(at) + "-";
        auto answer = bulk.call(request, [&](std::string_view bytes) {
            while (!bytes.empty()) {
                const auto put = ::pwrite(out.get(), bytes.data(), bytes.size(), at);
                if (put < 0 && errno == EINTR) continue;
                if (put < 0) {
                    disk = system_error("write", file);
                    disk_failed = true;
                    return false;
                }
                at += put;
                bytes.remove_prefix(static_cast<std::size_t>(put));
            }
            return true;
        });
        if (disk_failed) return fail(disk);
        if (answer && answer->status == 206) return {};
        if (answer && answer->status == 200 && st.st_size == 0) return {};
        if (answer && (answer->status == 416 || answer->status == 200)) {
            // 416: nothing is left to send, the whole file is here. 200: the range was ignored and the beginning was
            // appended; start over.
            if (answer->status == 416 && st.st_size > 0) return {};
            if (::ftruncate(out.get(), 0) != 0) return fail(system_error("truncate", file));
            continue;
        }
        if (answer && answer->status == 404) return fail(ErrorKind::not_found, "the daemon does not have the code " + sha256);
        if (answer && (answer->status == 409 || answer->status == 403)) return fail(ErrorKind::conflict, "fenced");
        if (stopped() || !pause.wait(stopped)) return fail(ErrorKind::conflict, "aborted");
    }
}

template <class Take>
Result<void> each_piece(const std::string& file, Take take) {
    const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in) return fail(system_error("open", file));
    std::string buffer(1 << 20, '\0');
    while (true) {
        const auto got = ::read(in.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(system_error("read", file));
        if (got == 0) return {};
        auto taken = take(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
        if (!taken) return taken;
    }
}

}  // namespace

Result<void> fetch_code(BulkClient& bulk, const std::string& sha256, const std::string& file, const std::string& folder,
                        const std::function<bool()>& stopped) {
    for (int tries = 1;; ++tries) {
        auto fetched = fetch(bulk, sha256, file, stopped);
        if (!fetched) return fetched;
        checkpoints::Sha256 hash;
        auto read = each_piece(file, [&](std::string_view bytes) -> Result<void> {
            hash.add(bytes);
            return {};
        });
        if (!read) return read;
        if (hash.finish().hex() == sha256) break;
        ::unlink(file.c_str());
        if (tries == kWholeTries) return fail(ErrorKind::io, "the code arrives damaged, " + std::to_string(tries) + " times");
    }
    TarReader reader(folder);
    auto unpacked = each_piece(file, [&](std::string_view bytes) { return reader.feed(bytes); });
    if (unpacked) unpacked = reader.finish();
    ::unlink(file.c_str());
    return unpacked;
}

}  // namespace gf::agent
